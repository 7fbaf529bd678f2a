import { json } from '../http/core/route.js'
import type { Storage } from '../machine/storage.js'
import { flag, integer, line, optional, readFields } from '../base/fields.js'
import type { Handler } from './route.js'

const maxKeep = 10_000

/** Fields of `POST /api/storage/clean`. */
export const cleanFields = {
  /** Whether to only report what would be removed. Default: false. */
  dryRun: optional(flag),
  /** Whether to remove files of deployments without a record. Default: false. */
  unrecorded: optional(flag),
  /** Removes only archives of this project. */
  projectId: optional(line({ min: 1, max: 100 })),
  /** Number of successful archives to keep per project, instead of the setting keep_archives. */
  keep: optional(integer(1, maxKeep))
}

/** Handlers of disk usage and cleaning (docs/decisions.md, "The data directory"). */
export function storageHandlers({ storage }: { storage: Storage }) {
  return {
    usage: async () => json(await storage.usage()),

    clean: async request => {
      const {
        dryRun = false,
        unrecorded = false,
        projectId,
        keep
      } = readFields((await request.json()) ?? {}, cleanFields)
      const cleaned = await storage.clean({ dryRun, unrecorded, projectId, keep, actor: request.actor })
      const { archives, temporaryFiles, unrecordedFiles, unrecordedLeft, freedBytes } = cleaned
      return json({
        success: true,
        dryRun,
        removed: { archives, temporaryFiles, unrecordedFiles },
        unrecordedLeft,
        freedBytes
      })
    }
  } satisfies Record<string, Handler>
}
