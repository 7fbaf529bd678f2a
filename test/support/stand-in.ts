import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Creates a shell script with this name in its own directory for PATH, removed after the test. */
export function standIn(t: { teardown(work: () => unknown): void }, name: string, script: string): string {
  const directory = mkdtempSync(join(tmpdir(), 'svc-stand-in-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  writeFileSync(join(directory, name), `#!/bin/sh\n${script}\n`)
  chmodSync(join(directory, name), 0o755)
  return directory
}
