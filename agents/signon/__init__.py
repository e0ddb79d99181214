"""Single sign-on by OpenID Connect: what a provider says, who that is here, the pages."""
