import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A directory that every user may enter, removed with the test. Checkouts may lie where only their owner may go. */
export function openDirectory(t: { teardown(work: () => unknown): void }): string {
  const directory = mkdtempSync(join(tmpdir(), 'svc-open-'))
  chmodSync(directory, 0o755)
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}
