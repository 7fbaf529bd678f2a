/*
 * Damaged, truncated, cancelled and oversize archives, uploaded to a real server while five other projects deploy and
 * read. Those must meet no error, and at the end the server must have open what it had at the beginning.
 *
 *   node dist/test/soak/archives.js [archives] [seed]      or SOAK_ARCHIVES, SOAK_SEED; 1,000 and 1 by default
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { soakArchives, violations } from '../support/archive-soak.js'

const archives = Number(process.argv[2] ?? process.env['SOAK_ARCHIVES'] ?? 1000)
const seed = Number(process.argv[3] ?? process.env['SOAK_SEED'] ?? 1)
const directory = mkdtempSync(join(tmpdir(), 'svc-soak-'))
const endings: Array<() => unknown> = [() => rmSync(directory, { recursive: true, force: true })]
const startedAtMs = performance.now()

try {
  const figures = await soakArchives({ teardown: end => void endings.unshift(end as () => unknown) }, { archives, seed, directory, isThorough: true })
  const wrong = violations(figures)
  console.log(`archives sent: ${archives} (seed ${seed})`)
  for (const [outcome, count] of Object.entries(figures.outcomes).sort()) console.log(`  ${outcome}: ${count}`)
  console.log(`honest rounds: ${figures.honestRounds}`)
  console.log(`honest errors: ${figures.honestErrors.length}`)
  console.log(`descriptors: ${figures.filesBefore} before, ${figures.filesAfter} after`)
  console.log(`warnings of the server: ${figures.warnings.length}`)
  console.log(`seconds: ${Math.round((performance.now() - startedAtMs) / 1000)}`)
  for (const one of wrong.slice(0, 20)) console.log(`VIOLATION ${one}`)
  process.exitCode = wrong.length === 0 ? 0 : 1
} finally {
  for (const end of endings) await end()
}
