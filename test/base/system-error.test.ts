import t from 'tap'
import { constants } from 'node:os'
import { packError, unpackError } from '../../lib/base/packed-error.js'
import { codeOf, isDiskFull, messageOf } from '../../lib/base/system-error.js'

const { EDQUOT, ESTALE } = constants.errno
const failed = (code: string, message: string, errno?: number): Error =>
  Object.assign(new Error(message), { code, ...(errno !== undefined && { errno }) })

/** As Node 20 makes it of a number that it has no name for. */
const unknown = (number: number): Error =>
  failed(`Unknown system error -${number}`, `Unknown system error -${number}: Unknown system error -${number}, write`, -number)

t.test('names and words', { skip: process.platform === 'win32' && 'these are numbers of POSIX systems' }, async t => {
  const cases: Array<[error: unknown, code: string, message: string]> = [
    [unknown(EDQUOT), 'EDQUOT', 'EDQUOT: disk quota exceeded, write'],
    [unknown(ESTALE), 'ESTALE', 'ESTALE: stale file handle, write'],
    [failed('UNKNOWN', 'UNKNOWN: unknown error, write', -EDQUOT), 'EDQUOT', 'EDQUOT: disk quota exceeded, write'],
    [failed('UNKNOWN', 'UNKNOWN: unknown error, write'), 'UNKNOWN', 'UNKNOWN: unknown error, write'],
    [unknown(99_999), 'Unknown system error -99999', 'Unknown system error -99999: Unknown system error -99999, write'],
    [failed('ENOSPC', 'ENOSPC: no space left on device, write', -28), 'ENOSPC', 'ENOSPC: no space left on device, write'],
    [new Error('no'), '', 'no'],
    [failed('ERR_X', 'x'), 'ERR_X', 'x'],
    [null, '', ''],
    [undefined, '', '']
  ]
  for (const [error, code, message] of cases) {
    t.equal(codeOf(error), code)
    t.equal(messageOf(error), message)
  }
})

t.test('no room is no space, or no more of the quota', async t => {
  t.ok(isDiskFull(failed('ENOSPC', 'no')))
  t.ok(isDiskFull(failed('EDQUOT', 'no')))
  t.ok(isDiskFull(unknown(EDQUOT)))
  t.notOk(isDiskFull(failed('EIO', 'no')))
  t.notOk(isDiskFull(undefined))
})

t.test('the name passes between threads', async t => {
  t.match(unpackError(packError(unknown(EDQUOT))), { code: 'EDQUOT', message: 'EDQUOT: disk quota exceeded, write' })
})
