import type { OutputLine } from '../../lib/model/deployment.js'
import { Announcer, type LogLine, type LogText } from '../../www/state/held-lines.js'

/** The output so far of a deployment. */
export interface Output extends LogText {
  readonly lines: readonly LogLine[]
  /** Number of lines at the start that were dropped because of the limit. */
  readonly droppedLines: number
  append(line: OutputLine): void
}

/** Maximum number of lines. If it is exceeded, the first tenth is dropped. The whole output can be downloaded. */
const defaultMaxLines = 200_000

/** Creates an empty output. Views listen to its `change` events. */
export function createOutput({ maxLines = defaultMaxLines } = {}): Output {
  class Lines extends Announcer implements Output {
    readonly lines: LogLine[] = []
    readonly epoch = 0
    readonly isAtEnd = true
    droppedLines = 0

    get firstNumber(): number {
      return this.droppedLines
    }

    get arrivedLines(): number {
      return this.droppedLines + this.lines.length
    }

    get head(): LogText['head'] {
      return this.droppedLines > 0 ? 'dropped' : 'start'
    }

    append(line: OutputLine): void {
      this.lines.push(line)
      if (this.lines.length > maxLines) {
        this.droppedLines += this.lines.splice(0, Math.ceil(maxLines / 10)).length
      }
      this.announce()
    }

    async seek(atMs: number): Promise<number | null> {
      const found = this.lines.findIndex(({ at }) => Date.parse(at) >= atMs)
      return found === -1 ? null : this.firstNumber + found
    }
  }
  return new Lines()
}
