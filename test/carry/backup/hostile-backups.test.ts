import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { systemClock } from '../../../lib/base/clock.js'
import { type BackupFile, sealFile } from '../../../lib/carry/backup/format.js'
import { restoreBackup } from '../../../lib/carry/backup/restore.js'
import { openBackup } from '../../../lib/carry/backup/read.js'
import { smallHome, manifestOf } from '../../support/backup.js'
import { hostileZip } from '../../support/hostile-zips.js'
import { makeZip, type EntryPlan } from '../../support/make-zip.js'
import { createRandom } from '../../support/random.js'
import { firstSeed, repetitions } from '../../support/thorough.js'
import { snapshot } from '../../support/tree.js'

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** Restores a backup; `force` moves existing files aside. */
async function restore(path: string, directory: string): Promise<readonly BackupFile[]> {
  const backup = await openBackup(path)
  try {
    await restoreBackup(backup, { directory, force: true, clock: systemClock, ids: { token: () => 'abcdefgh-more' } })
    return backup.files
  } finally {
    backup.close()
  }
}

t.test('a sealed backup is restored as its list says, or refused without a trace', async t => {
  const top = t.testdir({ place: {} })
  const files = await smallHome(join(top, 'source'))
  const whole: EntryPlan[] = [...Object.entries(files), ['manifest.json', manifestOf(files)] as const].map(
    ([name, bytes]): EntryPlan => ({ name: `svc-backup/${name}`, data: Buffer.from(bytes), method: 8 })
  )
  const path = join(top, 'a.zip')
  const place = join(top, 'place')
  const directory = join(place, 'home')
  const counts = { refused: 0, restored: 0 }
  const errors: string[] = []
  for (let n = 0; n < repetitions(200, 6000); n++) {
    const told = `seed ${firstSeed + n}`
    const random = createRandom(firstSeed + n)
    rmSync(place, { recursive: true, force: true })
    mkdirSync(place, { mode: 0o700 })
    const hasHome = random.below(2) === 0
    if (hasHome) {
      mkdirSync(directory, { mode: 0o700 })
      writeFileSync(join(directory, 'config.json'), '{"adminToken":"what-was-here-before-0123456789"}', { mode: 0o600 })
    }
    let isRestored = false
    const before = snapshot(place).join('\n')
    writeFileSync(path, n % 50 === 0 ? makeZip(whole) : hostileZip(whole, random, true).bytes)
    try {
      await sealFile(path)
      const listed = await restore(path, directory)
      isRestored = true
      counts.restored++
      for (const file of listed)
        if (hashOf(readFileSync(join(directory, file.path))) !== file.sha256)
          errors.push(`${told}: ${file.path} differs`)
      const allowed = new Set([...listed.map(file => file.path.split('/')[0] as string), 'svc.restored'])
      const others = readdirSync(directory).filter(name => !allowed.has(name) && !name.startsWith('before-restore-'))
      if (others.length > 0) errors.push(`${told}: also ${others.join()}`)
    } catch (error) {
      counts.refused++
      if (!(error instanceof Refusal)) errors.push(`${told}: ${(error as Error).stack}`)
      if (snapshot(place).join('\n') !== before) errors.push(`${told}: a refused backup left something`)
    }
    const beside = readdirSync(place).filter(
      name => name !== 'home' && !(hasHome && isRestored && name.startsWith('home.before-'))
    )
    if (beside.length > 0) errors.push(`${told}: beside the directory: ${beside.join()}`)
  }
  t.strictSame(errors, [])
  t.equal(({} as { polluted?: unknown }).polluted, undefined)
  t.comment(JSON.stringify(counts))
  t.ok(counts.refused > 20 && counts.restored > 3, JSON.stringify(counts))
})
