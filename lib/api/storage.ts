import { json } from '../http/route.js'
import type { Storage } from '../system/storage.js'
import { flag, integer, line, optional, readFields } from './fields.js'
import type { Handler } from './route.js'

const maxKeep = 10_000

/** What is kept, and what of it may go (decisions §7). */
export function storageHandlers({ storage }: { storage: Storage }) {
  return {
    usage: async () => json(await storage.usage()),

    clean: async request => {
      const { dryRun = false, projectId, keep } = readFields((await request.json()) ?? {}, {
        dryRun: optional(flag),
        projectId: optional(line({ min: 1, max: 100 })),
        keep: optional(integer(1, maxKeep))
      })
      const { archives, temporaryFiles, freedBytes } = await storage.clean({ dryRun, projectId, keep, actor: request.actor })
      return json({ success: true, dryRun, removed: { archives, temporaryFiles }, freedBytes })
    }
  } satisfies Record<string, Handler>
}
