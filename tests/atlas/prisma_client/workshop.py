"""A schema of its own, with every type, relation and odd name that Atlas's tables do not have (yet)."""

import datetime
import decimal
from typing import Any, ClassVar, Optional

from atlas.generated import fields
from atlas.generated.actions import JobActions
from atlas.generated.bases import _PrismaModel
from atlas.prisma_client import AsyncpgPrisma
from atlas.prisma_client.read_schema import parse_schema

SCHEMA_TEXT = r"""
// A comment with a "quote and a { brace.
generator client {
  provider = "prisma-client-py"
}

enum Color {
  red
  green @map("GREEN")
  blue  @map("it's {blue}")

  @@map("Paint")
}

model Gadget {
  id      Int       @id @default(autoincrement())
  code    String    @unique @db.VarChar(20)
  flag    Boolean?
  small   Int?      @db.SmallInt
  big     BigInt?
  ratio   Float?
  single  Float?    @db.Real
  price   Decimal?  @db.Decimal(12, 3)
  at      DateTime?
  atz     DateTime? @db.Timestamptz(6)
  day     DateTime? @db.Date
  doc     Json?
  textDoc Json?     @map("text_doc") @db.Json
  blob    Bytes?
  ref     String?   @db.Uuid
  letters String?   @db.Char(3)
  odd     String?   @map("odd \"column\"; drop")
  color   Color?
  colors  Color[]
  tags    String[]  @default(["new"])
  numbers Int[]
  refs    String[]  @db.Uuid
  docs    Json[]
  touched DateTime  @updatedAt @db.Timestamptz(6)
  ownerId Int?      @map("owner id")
  owner   Person?   @relation(fields: [ownerId], references: [id], onDelete: SetNull)
  secret  Unsupported("tsvector")?

  @@map("odd \"gadgets\"")
}

model Person {
  id      Int      @id @default(autoincrement())
  name    String
  email   String?  @unique
  key     String   @default(uuid())
  bossId  Int?     @map("boss_id")
  boss    Person?  @relation("chain", fields: [bossId], references: [id])
  team    Person[] @relation("chain")
  gadgets Gadget[]
  badge   Badge?
  clubs   Club[]

  @@unique([name, key], name: "who")
}

model Badge {
  number   String  @id @default(uuid(7)) @db.Uuid
  personId Int?    @unique @map("person_id")
  person   Person? @relation(fields: [personId], references: [id])
}

model Club {
  id     Int      @id
  title  String   @default(cuid())
  people Person[]
}

model Pair {
  left  Int
  right Int
  label String?
  marks Mark[]

  @@id([left, right])
}

model Mark {
  id    Int  @id
  left  Int
  right Int
  pair  Pair @relation(fields: [left, right], references: [left, right])

  @@unique([
    left, // a comment inside
    right(sort: Desc)
  ])
}
"""
SCHEMA = parse_schema(SCHEMA_TEXT)

TABLES = '''
create type "Paint" as enum ('red', 'GREEN', 'it''s {blue}');
create table "Person" (
  id serial primary key, name text not null, email text unique, key text not null,
  boss_id int references "Person" (id), unique (name, key)
);
create table "odd ""gadgets""" (
  id serial primary key, code varchar(20) not null unique, flag bool, small int2, big int8, ratio float8,
  single float4, price numeric(12, 3), at timestamp(3), atz timestamptz(6), day date, doc jsonb, text_doc json,
  blob bytea, ref uuid, letters char(3), "odd ""column""; drop" text, color "Paint", colors "Paint"[],
  tags text[] default '{new}', numbers int[], refs uuid[], docs jsonb[], touched timestamptz(6) not null,
  "owner id" int references "Person" (id) on delete set null, secret tsvector
);
create table "Badge" (number uuid primary key, person_id int unique references "Person" (id));
create table "Club" (id int primary key, title text not null);
create table "Pair" ("left" int, "right" int, label text, primary key ("left", "right"));
create table "Mark" (
  id int primary key, "left" int not null, "right" int not null, unique ("left", "right"),
  foreign key ("left", "right") references "Pair" ("left", "right")
);
grant all on all tables in schema atlas to public;
grant all on all sequences in schema atlas to public;
'''


class Gadget(_PrismaModel):
    __prisma_model__: ClassVar[str] = "Gadget"
    id: int
    code: str
    flag: bool | None = None
    small: int | None = None
    big: int | None = None
    ratio: float | None = None
    single: float | None = None
    price: decimal.Decimal | None = None
    at: datetime.datetime | None = None
    atz: datetime.datetime | None = None
    day: datetime.datetime | None = None
    doc: fields.Json | None = None
    textDoc: fields.Json | None = None
    blob: fields.Base64 | None = None
    ref: str | None = None
    letters: str | None = None
    odd: str | None = None
    color: str | None = None
    colors: list[str] | None = None
    tags: list[str] | None = None
    numbers: list[int] | None = None
    refs: list[str] | None = None
    docs: list[fields.Json] | None = None
    touched: datetime.datetime
    ownerId: int | None = None
    owner: Optional["Person"] = None


class Person(_PrismaModel):
    __prisma_model__: ClassVar[str] = "Person"
    id: int
    name: str
    email: str | None = None
    key: str
    bossId: int | None = None
    boss: Optional["Person"] = None
    team: list["Person"] | None = None
    gadgets: list["Gadget"] | None = None
    badge: Optional["Badge"] = None
    clubs: list["Club"] | None = None


class PersonName(_PrismaModel):
    """A partial type: the model with fewer fields."""

    __prisma_model__: ClassVar[str] = "Person"
    name: str


class Badge(_PrismaModel):
    __prisma_model__: ClassVar[str] = "Badge"
    number: str
    personId: int | None = None
    person: Optional["Person"] = None


class Club(_PrismaModel):
    __prisma_model__: ClassVar[str] = "Club"
    id: int
    title: str
    people: list["Person"] | None = None


class Pair(_PrismaModel):
    __prisma_model__: ClassVar[str] = "Pair"
    left: int
    right: int
    label: str | None = None
    marks: list["Mark"] | None = None


class Mark(_PrismaModel):
    __prisma_model__: ClassVar[str] = "Mark"
    id: int
    left: int
    right: int
    pair: Optional["Pair"] = None


for _model in (Gadget, Person, Badge, Club, Pair, Mark):
    _model.model_rebuild()


class Workshop:
    """The generated actions, which are the same for every model, on the models above."""

    def __init__(self, client: AsyncpgPrisma) -> None:
        self.client = client
        self.gadget: Any = JobActions(client, Gadget)
        self.person: Any = JobActions(client, Person)
        self.person_name: Any = JobActions(client, PersonName)
        self.badge: Any = JobActions(client, Badge)
        self.club: Any = JobActions(client, Club)
        self.pair: Any = JobActions(client, Pair)
        self.mark: Any = JobActions(client, Mark)
