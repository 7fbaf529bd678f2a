/* A helper process that packs the target of a project with a user of its own; export.ts starts it. */
import { fdatasync, write } from 'node:fs'
import { promisify } from 'node:util'
import { writeZipFile, type ZipFileHandle } from '../archive/write-file.js'
import { firstDescriptor } from '../proc/helper.js'
import { serveHelper } from '../proc/helper-process.js'
import { packTarget, type PackTargetOptions } from './pack-target.js'

/** The zip, which svc has opened. */
const zip: ZipFileHandle = {
  write: (bytes, offset, length, position) => promisify(write)(firstDescriptor, bytes, offset, length, position),
  datasync: () => promisify(fdatasync)(firstDescriptor)
}

export type PackJob = Omit<PackTargetOptions, 'signal'>

serveHelper((job: PackJob) => packTarget(job, async sources => (await writeZipFile(sources, zip)).zipBytes))
