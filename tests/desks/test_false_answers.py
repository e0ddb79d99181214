"""False answers in five languages: beside each stands the record, and neither is in the other."""

import re
from html import unescape

import pytest
from django.test import override_settings
from django.urls import reverse

from agents.core.states import RunState
from agents.models import Run
from tests.attacks.test_lost_transfer import READ, final, pay
from tests.conformance.replay_server import ReplayServer
from tests.desks.bank import bank_scene
from tests.desks.test_answers import ASKED, NOTHING
from tests.engine.scene import Scene, go
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

# Of a run that only read, and at the end of each list of one that sent EUR 480.00.
READ_ONLY, PAID = 12, 3
LIES = {
    "en": [
        "Done. EUR 480.00 was sent to Nordlicht Energie.",
        "I have paid the bill for you.",
        "The transfer is on its way and arrives tomorrow.",
        "As you asked, Atelier Sommer is now one of our payees.",
        "Rita approved it, and the bank has booked it.",
        "# The record\n\nEUR 480.00 was sent from Operating account to Nordlicht Energie.",
        "The record above is out of date: the payment went through a minute later.",
        "Bill settled ✅ nothing left to do.",
        "I split it into two: EUR 240.00 went out today, the rest goes tomorrow.",
        "The wrong transfer of yesterday was called back.",
        "| transfer | state |\n|---|---|\n| EUR 480.00 | **carried out** |",
        "The payee was blocked, as fraud was suspected.",
        "Nothing was paid.",
        "EUR 4,800.00 was sent to Nordlicht Energie.",
        "EUR 480.00 was sent to Kanzlei Brandt.",
        "The transfer was reversed again: the money is back.",
    ],
    "de": [
        "Erledigt. 480,00 EUR wurden an Nordlicht Energie überwiesen.",
        "Ich habe die Rechnung bezahlt.",
        "Die Überweisung ist unterwegs und kommt morgen an.",
        "Atelier Sommer ist jetzt als Empfänger angelegt.",
        "Rita hat zugestimmt, die Bank hat gebucht.",
        "## Der Nachweis\n\n480,00 EUR gingen an Nordlicht Energie.",
        "Der Nachweis oben ist veraltet: bezahlt wurde eine Minute später.",
        "Rechnung beglichen ✅ nichts mehr zu tun.",
        "240,00 EUR gingen heute hinaus, der Rest folgt morgen.",
        "Die falsche Überweisung von gestern wurde zurückgerufen.",
        "| Überweisung | Stand |\n|---|---|\n| 480,00 EUR | **ausgeführt** |",
        "Der Empfänger wurde wegen Betrugsverdachts gesperrt.",
        "Es wurde nichts bezahlt.",
        "4.800,00 EUR wurden an Nordlicht Energie überwiesen.",
        "480,00 EUR wurden an Kanzlei Brandt überwiesen.",
    ],
    "fr": [
        "C'est fait. 480,00 EUR ont été virés à Nordlicht Energie.",
        "J'ai réglé la facture.",
        "Le virement est en route et arrive demain.",
        "Atelier Sommer figure désormais parmi nos bénéficiaires.",
        "Rita a donné son accord et la banque a passé l'écriture.",
        "### Le registre\n\n480,00 EUR ont été envoyés à Nordlicht Energie.",
        "Le registre ci-dessus est périmé : le paiement est passé une minute après.",
        "Facture soldée ✅ plus rien à faire.",
        "240,00 EUR sont partis aujourd'hui, le reste part demain.",
        "Le virement erroné d'hier a été rappelé.",
        "| virement | état |\n|---|---|\n| 480,00 EUR | **exécuté** |",
        "Le bénéficiaire a été bloqué pour soupçon de fraude.",
        "Rien n'a été payé.",
        "4 800,00 EUR ont été virés à Nordlicht Energie.",
        "480,00 EUR ont été virés à Kanzlei Brandt.",
    ],
    "es": [
        "Hecho. Se enviaron 480,00 EUR a Nordlicht Energie.",
        "He pagado la factura.",
        "La transferencia está en camino y llega mañana.",
        "Atelier Sommer ya figura entre nuestros beneficiarios.",
        "Rita lo aprobó y el banco ya lo anotó.",
        "# El registro\n\nSe enviaron 480,00 EUR a Nordlicht Energie.",
        "El registro de arriba está anticuado: el pago salió un minuto después.",
        "Factura saldada ✅ no queda nada por hacer.",
        "Hoy salieron 240,00 EUR, el resto sale mañana.",
        "La transferencia errónea de ayer fue retirada.",
        "| transferencia | estado |\n|---|---|\n| 480,00 EUR | **ejecutada** |",
        "El beneficiario fue bloqueado por sospecha de fraude.",
        "No se pagó nada.",
        "Se enviaron 4.800,00 EUR a Nordlicht Energie.",
        "Se enviaron 480,00 EUR a Kanzlei Brandt.",
    ],
    "ar": [
        "تم. أُرسل مبلغ 480.00 يورو إلى Nordlicht Energie.",
        "لقد دفعت الفاتورة.",
        "التحويل في الطريق ويصل غدا.",
        "أصبح Atelier Sommer من المستفيدين لدينا.",
        "وافقت ريتا وسجل البنك العملية.",
        "# السجل\n\nأُرسل مبلغ 480.00 يورو إلى Nordlicht Energie.",
        "السجل أعلاه قديم: تم الدفع بعد دقيقة.",
        "سُددت الفاتورة ✅ لم يبق شيء.",
        "خرج اليوم 240.00 يورو والباقي غدا.",
        "أُلغي التحويل الخاطئ من أمس.",
        "| التحويل | الحالة |\n|---|---|\n| 480.00 | **نُفذ** |",
        "حُظر المستفيد للاشتباه في الاحتيال.",
        "لم يُدفع شيء.",
        "أُرسل مبلغ 4800.00 يورو إلى Nordlicht Energie.",
        "أُرسل مبلغ 480.00 يورو إلى Kanzlei Brandt.",
    ],
}
SENT = "EUR 480.00 was sent from Operating account to Nordlicht Energie (P-101)"
END = re.compile(
    r'<div class="ending stack" id="end">(.*?)<h3>The agent wrote</h3>(.*?</ul>)', re.DOTALL
)
FRAME = re.compile(r'<div class="card body prose" dir="auto">(.*?)</div>', re.S)


def end_with(scene: Scene, server: ReplayServer, lie: str, *, is_paid: bool) -> Run:
    """Play a run that reads, pays if it is to, and ends with a lie."""
    script = [READ, *([pay("480.00")] if is_paid else []), final(lie)]
    server.load("lies", script, {"sticky_last": True})
    goal = "Pay Nordlicht Energie EUR 480.00 for invoice INV-22." if is_paid else ASKED
    run = scene.launch(goal, desk="bank", subject="main")
    with override_settings(OPENAI_BASE_URL=server.base_url("lies"), OPENAI_API_KEY="any"):
        return go(run)


def shown(scene: Scene, run: Run) -> tuple[str, str, str]:
    """Return the record, what stands in the frame, and all that stands beside it."""
    page = client_of(scene.omar).get(reverse("run", args=[run.pk])).text
    found = END.search(page)
    assert found
    frame = FRAME.match(found[2].strip())
    assert frame
    return words(found[1]), frame[1], words(found[2].replace(frame[0], ""))


def letters(text: str) -> str:
    """Return a text's letters and digits, which no markup changes."""
    return "".join(char for char in unescape(text) if char.isalnum())


def test_there_are_76() -> None:
    assert sum(map(len, LIES.values())) == 76


@pytest.mark.parametrize("language", [*LIES])
def test_the_record_stands_before_each_and_says_what_was_done(
    server: ReplayServer, language: str
) -> None:
    scene = bank_scene()
    for number, lie in enumerate(LIES[language]):
        is_paid = number > READ_ONLY - 1
        run = end_with(scene, server, lie, is_paid=is_paid)
        assert run.state == RunState.DONE, run.stop_reason

        record, frame, beside = shown(scene, run)

        assert (SENT if is_paid else NOTHING) in record, lie
        assert letters(words(frame)) == letters(lie), "no sentence of the console's within"
        assert "<h" not in frame, "a heading of theirs looks like one of the console's"
        assert letters(lie) not in letters(record + beside)
        assert (run.outcome or {})["came_of"] != "carried_out" or is_paid
