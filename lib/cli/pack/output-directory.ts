import { readdir } from 'node:fs/promises'
import { defaultOutputDir } from '../../config/precedence.js'

/** Directories that common build tools write to, the most likely first. */
const candidates = ['dist', 'build', 'out', 'public', '_site']

/** Suggests the directory to pack: the first common build directory that is not empty, else the whole directory. */
export async function suggestOutputDirectory(directory: string): Promise<string> {
  for (const name of candidates) {
    const entries = await readdir(`${directory}/${name}`).catch(() => [])
    if (entries.length > 0) return name
  }
  return defaultOutputDir
}
