"""What application code needs beside the typed client: `from atlas.prisma import Json, errors`.

All of it is generated. A package `prisma`, with a client of the application's own tables, has nothing to do with it.
"""

from atlas.generated import Base64, Json, bases, enums, errors, models, types

__all__ = ["Base64", "Json", "bases", "enums", "errors", "models", "types"]
