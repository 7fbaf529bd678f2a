/* One line of the list in an undo journal: one action of a commit. undo.ts describes the format. */
import { encodePath } from './journal-file.js'

/** A file whose time is the only thing that changes. */
export interface TimeLine {
  kind: 'T'
  path: string
  fromMs: number
  toMs: number
}

/** A file that is removed. */
export interface RemoveLine {
  kind: 'X'
  path: string
  aside: number
}

/** One action of a commit. Its kind is the letter in the journal. */
export type JournalLine =
  | { kind: 'D' | 'd' | 'n' | 'N'; path: string }
  | { kind: 'R'; path: string; aside: number }
  | TimeLine
  | RemoveLine
  | { kind: 'x'; path: string; mode: number }

/** Formats a line in the current version, including its newline. */
export function formatLine(line: JournalLine): string {
  const path = encodePath(line.path)
  switch (line.kind) {
    case 'R':
    case 'X':
      return `${line.kind} ${line.aside} ${path}\n`
    case 'x':
      return `x ${line.mode.toString(8)} ${path}\n`
    case 'T':
      return `T ${line.fromMs} ${line.toMs} ${path}\n`
    default:
      return `${line.kind} ${path}\n`
  }
}

const withNumber: ReadonlySet<JournalLine['kind']> = new Set(['R', 'T', 'X', 'x'] as const)

/** Parses a line without its newline. `pathOf` decodes a path of the journal's version. */
export function parseLine(text: string, pathOf: (text: string) => string): JournalLine {
  const kind = text.slice(0, 1) as JournalLine['kind']
  if (!withNumber.has(kind)) return { kind, path: pathOf(text.slice(2)) } as JournalLine
  const first = text.indexOf(' ', 2)
  const number = text.slice(2, first)
  if (kind === 'R' || kind === 'X') return { kind, aside: Number(number), path: pathOf(text.slice(first + 1)) }
  if (kind === 'x') return { kind, mode: Number.parseInt(number, 8), path: pathOf(text.slice(first + 1)) }
  const second = text.indexOf(' ', first + 1)
  const [fromMs, toMs] = [Number(number), Number(text.slice(first + 1, second))]
  return { kind: 'T', fromMs, toMs, path: pathOf(text.slice(second + 1)) }
}
