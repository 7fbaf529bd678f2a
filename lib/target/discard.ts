/*
 * Removing what was replaced. Mostly a call takes 10 us, and one after the other is quickest; but where each waits for
 * the disk (a file system that discards freed blocks at once, one behind a network), several at a time wait together.
 * Seen on ext4 with `discard`: 4,000 files in 1.1 s, and in 0.3 s three abreast; in memory 0.04 s, and 0.1 s.
 */
import { performance } from 'node:perf_hooks'
import { abreast } from './abreast.js'
import type { Disk } from './disk.js'

/** Files that are removed to find out. */
const sampleFiles = 32
/** Slower calls than this wait for something. */
const slowUs = 100

/** Removes all files of a directory that has nothing else in it. */
export async function discardFiles(disk: Disk, directory: string): Promise<void> {
  const paths = disk.readdirSync(directory).map(name => `${directory}/${name}`)
  const startedAtMs = performance.now()
  for (const path of paths.slice(0, sampleFiles)) disk.unlinkSync(path)
  const isSlow = (performance.now() - startedAtMs) * 1000 > sampleFiles * slowUs
  const rest = paths.slice(sampleFiles)
  if (isSlow) await abreast(rest, path => unlink(disk, path))
  else for (const path of rest) disk.unlinkSync(path)
}

function unlink(disk: Disk, path: string): Promise<void> {
  return new Promise((resolve, reject) => disk.unlink(path, error => error === null ? resolve() : reject(error)))
}
