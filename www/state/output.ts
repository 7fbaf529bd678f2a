import type { OutputLine } from '../../lib/model/deployment.js'

/** The output of a deployment as far as it is known. Dispatches `change` at most once a microtask. */
export interface Output extends EventTarget {
  readonly lines: readonly OutputLine[]
  /** Lines at the head that were given up for the limit's sake. */
  readonly droppedLines: number
  append(line: OutputLine): void
}

/** Beyond this the head is given up, a tenth at a time; the whole can be downloaded. */
const defaultMaxLines = 200_000

/** Lines as they come; those who show them listen. */
export function createOutput({ maxLines = defaultMaxLines } = {}): Output {
  class Lines extends EventTarget implements Output {
    readonly lines: OutputLine[] = []
    droppedLines = 0
    #isAnnounced = false

    append(line: OutputLine): void {
      this.lines.push(line)
      if (this.lines.length > maxLines) {
        this.droppedLines += this.lines.splice(0, Math.ceil(maxLines / 10)).length
      }
      if (this.#isAnnounced) return
      this.#isAnnounced = true
      queueMicrotask(() => {
        this.#isAnnounced = false
        this.dispatchEvent(new Event('change'))
      })
    }
  }
  return new Lines()
}
