import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createVerification } from '../../lib/store/page-verification.js'

/* What it means for a store is in page-check.test.ts. */

t.test('checks a file once, and remembers its fault', async t => {
  const path = join(t.testdir(), 'svc.db')
  writeFileSync(path, Buffer.alloc(10_000, 'x'))
  const warnings: string[] = []
  const pages = createVerification({ path, isChecked: false, warn: sentence => void warnings.push(sentence) })
  t.equal(pages.damage, null)
  const checks = await Promise.allSettled([pages.verified(), pages.verified()])
  t.match(checks, [{ reason: { code: 'database_damaged' } }, { reason: { code: 'database_damaged' } }])
  t.equal(warnings.length, 1)
  t.match(pages.damage, { code: 'database_damaged' })
  pages.stop()
})

t.test('does not look at a file that was checked before', async t => {
  const pages = createVerification({ path: '/nowhere', isChecked: true, warn: t.fail })
  await pages.verified()
  t.equal(pages.damage, null)
  pages.stop()
})
