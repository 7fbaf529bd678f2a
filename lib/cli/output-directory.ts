import { readdir } from 'node:fs/promises'
import { defaultOutputDir } from '../config/precedence.js'

/** Where the usual tools write their builds, the most likely first. */
const candidates = ['dist', 'build', 'out', 'public', '_site']

/** The directory that is probably to be packed: one of the usual names that is there and not empty; else all of it. */
export async function suggestOutputDirectory(directory: string): Promise<string> {
  for (const name of candidates) {
    const entries = await readdir(`${directory}/${name}`).catch(() => [])
    if (entries.length > 0) return name
  }
  return defaultOutputDir
}
