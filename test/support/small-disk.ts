import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/**
 * Mounts a tmpfs of this size for the test, with this number of inodes if one is given; returns null, and prints the reason, if
 * mounting is not allowed.
 */
export function smallDisk(t: Test, bytes: number, inodes?: number): string | null {
  const directory = mkdtempSync(join(tmpdir(), 'svc-small-disk-'))
  try {
    const options = `size=${bytes},mode=700${inodes === undefined ? '' : `,nr_inodes=${inodes}`}`
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory], { stdio: 'pipe' })
  } catch (error) {
    rmSync(directory, { recursive: true })
    const reason = String((error as { stderr?: Buffer }).stderr ?? error).trim()
    t.comment(`left out, a small disk cannot be mounted: ${reason}`)
    return null
  }
  t.teardown(() => {
    execFileSync('umount', ['-l', directory])
    rmSync(directory, { recursive: true, force: true })
  })
  return directory
}
