import type { LogKind } from '../../lib/model/log-source.js'

/** What a file's kind is called. */
export const kindWords: Readonly<Record<LogKind, { words: string }>> = {
  plain: { words: 'Plain text' },
  json: { words: 'JSON lines' },
  ansi: { words: 'Terminal colours' }
}

export const kinds = Object.keys(kindWords) as readonly LogKind[]
