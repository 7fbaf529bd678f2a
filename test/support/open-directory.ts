import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Creates a directory that every user may enter, removed after the test. A checkout may be private. */
export function openDirectory(t: { teardown(work: () => unknown): void }): string {
  const directory = mkdtempSync(join(tmpdir(), 'svc-open-'))
  chmodSync(directory, 0o755)
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}
