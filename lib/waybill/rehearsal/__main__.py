"""rehearsal-model - serve a scripted model on loopback

usage: rehearsal-model [--port N] [--log DIR] [--] SCRIPT

  --port N   the port to listen on; 0 takes a free one [default: 0]
  --log DIR  keep each request as DIR/NNNN.json
"""

from waybill.base import command
from waybill.rehearsal.command import main as serve


def main(arguments: command.Arguments) -> int:
    return serve(arguments["SCRIPT"], command.whole(arguments, "--port"), arguments["--log"])


if __name__ == "__main__":
    command.run(main, __doc__)
