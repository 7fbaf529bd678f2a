import { openArchive } from '../../archive/read.js'
import { OpenFile } from '../../base/files.js'
import { firstDescriptor } from '../../proc/kept-descriptors.js'
import { beforeAt, beforePathOf, openedBefore } from '../before-images.js'
import type { Disk } from '../disk.js'
import { journalAt, openedJournal } from '../journal-file.js'
import { manifestAt, openedManifest } from '../manifest.js'
import type { ExtractionFiles } from './extraction.js'

/** Paths of the files of an extraction in the data directory. */
export interface ExtractionPaths {
  archivePath: string
  journalPath: string
  manifestPath: string
}

/** Returns the files of an extraction by their paths. */
export function filesAt(disk: Disk, { archivePath, journalPath, manifestPath }: ExtractionPaths): ExtractionFiles {
  return {
    openArchive: limits => openArchive(archivePath, limits),
    journal: journalAt(disk, journalPath),
    manifest: manifestAt(disk, manifestPath),
    before: beforeAt(disk, beforePathOf(journalPath))
  }
}

/**
 * The descriptors of a helper process that extracts. A process that recovers has only the journal, as the first
 * descriptor.
 */
const descriptors = {
  archive: firstDescriptor,
  journal: firstDescriptor + 1,
  manifest: firstDescriptor + 2,
  before: firstDescriptor + 3
}

/** Returns the files of an extraction as a helper process gets them: already open. */
export function openedFiles(disk: Disk, deployId: string): ExtractionFiles {
  return {
    openArchive: limits => openArchive(new OpenFile(descriptors.archive), limits),
    journal: openedJournal(disk, descriptors.journal, deployId),
    manifest: openedManifest(disk, descriptors.manifest),
    before: openedBefore(disk, descriptors.before)
  }
}
