/* A helper process that packs the target of a project that runs as a user of its own; export.ts starts it. */
import { fdatasync, write } from 'node:fs'
import { promisify } from 'node:util'
import { writeZipFile, type ZipFileHandle } from '../../core/archive/write-file.js'
import { firstDescriptor } from '../../core/proc/environment.js'
import { serveHelper } from '../../core/proc/helper-process.js'
import { packTarget, type PackTargetOptions } from './pack-target.js'

/** The zip file, which svc has opened. */
const zip: ZipFileHandle = {
  write: (bytes, ...place) => promisify(write)(firstDescriptor, bytes, ...place),
  datasync: () => promisify(fdatasync)(firstDescriptor)
}

/** The job of the helper process. */
export type PackJob = Omit<PackTargetOptions, 'signal'>

serveHelper((job: PackJob) => packTarget(job, async sources => (await writeZipFile(sources, zip)).zipBytes))
