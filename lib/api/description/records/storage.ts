/* Schemas of directories and disk usage. */
import type { PlaceEntry, PlaceHome, PlaceListing } from '../../../model/place.js'
import type { FoundBytes, ProjectUsage, StorageUsage } from '../../../model/storage.js'
import { boolean, described, integer, list, nullable, number, record, text } from '../schema.js'
import { bytes, deployId, deployPath, nullableBytes, projectId } from './common.js'

/** Start directories for choosing a path. */
export const placeHome = record<PlaceHome>({
  home: described('The home directory of the user that svc runs as', text('/root')),
  cwd: described('The working directory of the server', text('/srv')),
  sep: described('The path separator', text('/')),
  roots: described('The roots of the file systems', list(text('/')))
})

/** A directory of the server. */
export const placeListing = record<PlaceListing>({
  path: text('/srv'),
  parent: described('The parent directory. Null for a root', nullable(text('/'))),
  exists: boolean(true),
  isDir: boolean(true),
  truncated: described('Whether the directory has more entries than listed', boolean(false)),
  entries: list(
    record<PlaceEntry>({
      name: text('shop'),
      path: deployPath,
      isDir: boolean(true),
      isSymlink: boolean(false),
      isHidden: boolean(false)
    })
  )
})

/** A file and its size. */
export const foundBytes = record<FoundBytes>({ name: text('1a2b3c.zip'), bytes })

/** The disk usage of svc and of the targets. */
export const storageUsage = record<StorageUsage>({
  home: record<StorageUsage['home']>({
    path: text('/var/lib/svc'),
    bytes,
    freeBytes: nullableBytes,
    totalBytes: nullableBytes,
    percentUsed: nullable(number(41.5))
  }),
  totals: record<StorageUsage['totals']>({ archives: bytes, logs: bytes, tmp: bytes, database: bytes }),
  projects: list(
    record<ProjectUsage>({
      projectId,
      archiveCount: integer(10),
      archiveBytes: bytes,
      logBytes: bytes,
      deployPathBytes: nullableBytes
    })
  )
})

/** The fields of the result of cleaning. */
export const cleaned = {
  dryRun: boolean(false),
  removed: record<{
    archives: Array<{ deployId: string; projectId: string; bytes: number }>
    temporaryFiles: FoundBytes[]
    unrecordedFiles: FoundBytes[]
  }>({
    archives: list(record<{ deployId: string; projectId: string; bytes: number }>({ deployId, projectId, bytes })),
    temporaryFiles: list(foundBytes),
    unrecordedFiles: list(foundBytes)
  }),
  unrecordedLeft: list(foundBytes),
  freedBytes: bytes
}
