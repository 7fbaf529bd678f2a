/* One line of the list in an undo journal: one action of a commit. undo.ts describes the format. */
import { encodePath } from './journal-file.js'

/** A file whose time is the only thing that changes. */
export interface TimeLine {
  kind: 'T'
  path: string
  fromMs: number
  toMs: number
}

/** One action of a commit. Its kind is the letter in the journal. */
export type JournalLine =
  | { kind: 'D' | 'd' | 'n' | 'N'; path: string }
  | { kind: 'R'; path: string; aside: number }
  | TimeLine

/** Formats a line in the current version, including its newline. */
export function formatLine(line: JournalLine): string {
  const path = encodePath(line.path)
  switch (line.kind) {
    case 'R':
      return `R ${line.aside} ${path}\n`
    case 'T':
      return `T ${line.fromMs} ${line.toMs} ${path}\n`
    default:
      return `${line.kind} ${path}\n`
  }
}

/** Parses a line without its newline. `pathOf` decodes a path of the journal's version. */
export function parseLine(text: string, pathOf: (text: string) => string): JournalLine {
  const kind = text.slice(0, 1) as JournalLine['kind']
  if (kind !== 'R' && kind !== 'T') return { kind, path: pathOf(text.slice(2)) }
  const first = text.indexOf(' ', 2)
  if (kind === 'R') return { kind, aside: Number(text.slice(2, first)), path: pathOf(text.slice(first + 1)) }
  const second = text.indexOf(' ', first + 1)
  const [fromMs, toMs] = [Number(text.slice(2, first)), Number(text.slice(first + 1, second))]
  return { kind, fromMs, toMs, path: pathOf(text.slice(second + 1)) }
}
