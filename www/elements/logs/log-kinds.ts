import type { LogKind } from '../../../lib/model/log-source.js'

/** The name of each kind of file. */
export const kindWords: Readonly<Record<LogKind, { words: string }>> = {
  plain: { words: 'Plain text' },
  json: { words: 'JSON lines' },
  ansi: { words: 'Terminal colours' },
  pm2: { words: 'PM2 application' },
  nginx: { words: 'nginx' }
}

/** The kinds in the order of the choice. */
export const kinds = Object.keys(kindWords) as readonly LogKind[]
