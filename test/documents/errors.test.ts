import t from 'tap'
import { errorCodes } from '../../lib/api/errors.js'
import { findRefusals } from '../support/refusals.js'
import { cures, otherCodes } from './errors.js'

// The sources are parsed as a whole: seconds, or a minute on a busy machine.

t.test('docs/errors.md says what to do about every code of the API', async t => {
  t.strictSame(Object.keys(cures).sort(), Object.keys(errorCodes).sort())
})

t.test('docs/errors.md contains the code of every refusal in lib', async t => {
  const found = findRefusals().flatMap(({ codes }) => codes.filter(({ isWhole }) => isWhole))
  t.ok(found.length > 200)
  for (const { head, path, line } of found)
    t.ok((head as string) in errorCodes || (head as string) in otherCodes, `${path}:${line} ${head}`)
})

t.test('a code is in one of the two tables', async t => {
  for (const code of Object.keys(otherCodes)) t.notOk(code in errorCodes, code)
})
