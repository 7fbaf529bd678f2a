import type { Backups } from '../backup/backup.js'
import { summaryOf } from '../backup/format.js'
import { queryPath } from './query.js'
import type { Handler } from './route.js'
import { throughBytes, throughStream, writeTo } from './write-to.js'

/** Handler of `GET /api/backup`: writes a backup without its seal. `svc backup` adds the seal. */
export function backupHandlers({ backups }: { backups: Backups }) {
  return {
    write: async ({ query, actor }) => {
      const to = queryPath(query, 'to')
      if (to !== undefined) {
        return writeTo(to, actor, async (file, writing) => summaryOf(await backups.write(file, { actor, ...writing })))
      }
      return {
        kind: 'stream',
        status: 200,
        heldBytes: throughBytes,
        headers: { 'content-type': 'application/zip', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
        run: sink => throughStream(sink, out => backups.write(out, { actor, signal: sink.signal }))
      }
    }
  } satisfies Record<string, Handler>
}
