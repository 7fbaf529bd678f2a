import { openArchive } from '../archive/read.js'
import { OpenFile } from '../base/open-file.js'
import { firstDescriptor } from '../proc/helper.js'
import type { Disk } from '../target/disk.js'
import { journalAt, openedJournal } from '../target/journal-file.js'
import { manifestAt, openedManifest } from '../target/manifest.js'
import type { ExtractionFiles } from './extraction.js'

/** Where the files of an extraction lie in the data directory. */
export interface ExtractionPaths {
  archivePath: string
  journalPath: string
  manifestPath: string
}

/** They by their names. */
export function filesAt(disk: Disk, { archivePath, journalPath, manifestPath }: ExtractionPaths): ExtractionFiles {
  return {
    openArchive: limits => openArchive(archivePath, limits),
    journal: journalAt(disk, journalPath),
    manifest: manifestAt(disk, manifestPath)
  }
}

/** The descriptors of a helper process that extracts. One that recovers has the journal alone, as the first. */
const descriptors = { archive: firstDescriptor, journal: firstDescriptor + 1, manifest: firstDescriptor + 2 }

/** They as a helper process has them: open. */
export function openedFiles(disk: Disk, deployId: string): ExtractionFiles {
  return {
    openArchive: limits => openArchive(new OpenFile(descriptors.archive), limits),
    journal: openedJournal(disk, descriptors.journal, deployId),
    manifest: openedManifest(disk, descriptors.manifest)
  }
}
