"""A row of the database becomes a public model by one function, whoever read it."""

import pytest
from pydantic import ValidationError

from atlas.db.prisma import prisma_on
from atlas.engine.access.tokens import add_token
from atlas.models.rows import from_row
from atlas.models.tenants import CreatedToken, Token
from tests.support import DANA, given_tenant


async def test_a_row_of_a_statement_and_a_row_of_the_typed_client_are_the_same_model(conn):
    await given_tenant(conn)
    token, clear = await add_token(conn, subject="dana", role="auditor", actor=DANA)
    stated = await conn.fetchrow("select * from atlas.api_tokens where id = $1", token.id)
    typed = await prisma_on(conn).apitoken.find_unique({"id": str(token.id)})

    assert from_row(Token, stated) == from_row(Token, typed) == token
    # JSON is read.
    assert token.scopes == {}
    assert from_row(CreatedToken, stated, token=clear).token == clear
    with pytest.raises(ValidationError, match="token"):
        from_row(CreatedToken, stated)
