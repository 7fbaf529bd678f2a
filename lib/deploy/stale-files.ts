import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryFilePattern, type DeployHome } from './files.js'

/**
 * An upload that comes in grows at least once a minute, or it is given up (http); one that has come is kept under
 * another name at once. So a file that nobody has touched for so long belongs to nobody.
 */
const staleMs = 60 * 60_000

/** Files of ours in `tmp/` that were left behind; a list of changes stays as long as its deployment is `isLive`. */
export async function findStaleFiles(
  { tmp }: Pick<DeployHome, 'tmp'>,
  { nowMs, isLive }: { nowMs: number; isLive(deployId: string): boolean }
): Promise<string[]> {
  const names = (await readdir(tmp).catch(() => [])).filter(name => temporaryFilePattern.test(name))
  const stale: string[] = []
  for (const name of names) {
    const stats = await stat(join(tmp, name)).catch(() => null)
    if (stats?.isFile() && nowMs - stats.mtimeMs > staleMs && !isLive(name.replace(/\.\w+$/, ''))) stale.push(join(tmp, name))
  }
  return stale
}
