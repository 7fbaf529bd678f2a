import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** A file system of so many bytes (tmpfs), gone after the test; null, the reason printed, where one may not mount. */
export function smallDisk(t: Test, bytes: number): string | null {
  const directory = mkdtempSync(join(tmpdir(), 'svc-small-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=700`, 'tmpfs', directory], { stdio: 'pipe' })
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
