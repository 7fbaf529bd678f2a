import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rename } from 'node:fs/promises'
import { constants } from 'node:os'
import { join } from 'node:path'
import {
  codeOf,
  hasCode,
  invalid,
  isDenied,
  isDiskFull,
  messageOf,
  notFound,
  nullIfMissing,
  packError,
  reasonOf,
  Refusal,
  sentenceOf,
  unpackError
} from '../../lib/base/errors.js'

t.test('a refusal has its kind, its code, its sentence and its details', async t => {
  const cause = new Error('EACCES')
  const refusal = new Refusal('too_many', 'too_many_searches', 'Cannot search', { retryAfterSeconds: 5, cause })
  t.ok(refusal instanceof Error)
  t.match(refusal, { name: 'Refusal', kind: 'too_many', code: 'too_many_searches', message: 'Cannot search' })
  t.equal(refusal.retryAfterSeconds, 5)
  t.equal(refusal.cause, cause)
})

t.test('a refusal without a cause has no property of that name', async t => {
  t.notOk('cause' in new Refusal('conflict', 'in_use', 'Cannot start'))
})

t.test('names an invalid field, and the id of a missing record', async t => {
  t.match(invalid('items[3].filePath', 'must be absolute'), { kind: 'invalid', field: 'items[3].filePath' })
  t.match(notFound('Project', 'proj_a'), { kind: 'not_found', code: 'not_found', message: /"proj_a"/ })
})

const { EDQUOT, ESTALE } = constants.errno
const failed = (code: string, message: string, errno?: number): Error =>
  Object.assign(new Error(message), { code, ...(errno !== undefined && { errno }) })

/** An error as Node 20 creates it for a number that it does not know. */
const unknown = (number: number): Error =>
  failed(
    `Unknown system error -${number}`,
    `Unknown system error -${number}: Unknown system error -${number}, write`,
    -number
  )

t.test(
  'finds names and words of system errors',
  { skip: process.platform === 'win32' && 'these are numbers of POSIX systems' },
  async t => {
    const cases: Array<[error: unknown, code: string, message: string]> = [
      [unknown(EDQUOT), 'EDQUOT', 'EDQUOT: disk quota exceeded, write'],
      [unknown(ESTALE), 'ESTALE', 'ESTALE: stale file handle, write'],
      [failed('UNKNOWN', 'UNKNOWN: unknown error, write', -EDQUOT), 'EDQUOT', 'EDQUOT: disk quota exceeded, write'],
      [failed('UNKNOWN', 'UNKNOWN: unknown error, write'), 'UNKNOWN', 'UNKNOWN: unknown error, write'],
      [
        unknown(99_999),
        'Unknown system error -99999',
        'Unknown system error -99999: Unknown system error -99999, write'
      ],
      [
        failed('ENOSPC', 'ENOSPC: no space left on device, write', -28),
        'ENOSPC',
        'ENOSPC: no space left on device, write'
      ],
      [new Error('no'), '', 'no'],
      [failed('ERR_X', 'x'), 'ERR_X', 'x'],
      [null, '', ''],
      [undefined, '', '']
    ]
    for (const [error, code, message] of cases) {
      t.equal(codeOf(error), code)
      t.equal(messageOf(error), message)
    }
  }
)

t.test('a full disk means no space or an exceeded quota', async t => {
  t.ok(isDiskFull(failed('ENOSPC', 'no')))
  t.ok(isDiskFull(failed('EDQUOT', 'no')))
  t.ok(isDiskFull(unknown(EDQUOT)))
  t.notOk(isDiskFull(failed('EIO', 'no')))
  t.notOk(isDiskFull(undefined))
})

t.test('keeps the name between threads', async t => {
  t.match(unpackError(packError(unknown(EDQUOT))), { code: 'EDQUOT', message: 'EDQUOT: disk quota exceeded, write' })
})

t.test(
  'reasonOf returns why a call failed',
  { skip: process.platform === 'win32' && 'these are numbers of POSIX systems' },
  async t => {
    const cases: Array<[error: unknown, reason: string]> = [
      [failed('ENOSPC', 'ENOSPC: no space left on device, write', -28), 'no space left on device'],
      [failed('EACCES', "EACCES: permission denied, open '/a'"), 'permission denied'],
      [failed('EADDRINUSE', 'listen EADDRINUSE: address already in use :::80'), 'address already in use'],
      [failed('ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:80'), 'connection refused'],
      [unknown(EDQUOT), 'disk quota exceeded'],
      [failed('ERR_X', 'not that'), 'not that'],
      ['a text', 'a text']
    ]
    for (const [error, reason] of cases) t.equal(reasonOf(error), reason)
  }
)

t.test('sentenceOf says what a call of the system was to do', async t => {
  const directory = t.testdir({ file: '' })
  const [gone, file] = [join(directory, 'gone'), join(directory, 'file')]
  const cases: Array<[call: () => Promise<unknown>, sentence: string]> = [
    [() => readFile(gone), `Cannot open "${gone}": no such file or directory`],
    [() => mkdir(join(file, 'a')), `Cannot create the directory "${join(file, 'a')}": not a directory`],
    [() => readdir(file), `Cannot list "${file}": not a directory`],
    [() => rename(gone, file), `Cannot rename "${gone}": no such file or directory`],
    [() => once(spawn(gone, { cwd: directory }), 'spawn'), `Cannot start "${gone}": no such file or directory`],
    [
      () => mkdtemp(join(gone, 'pack-')),
      `Cannot create a temporary directory in "${gone}": no such file or directory. Set TMPDIR to a directory that you can write to`
    ],
    [() => Promise.reject(failed('EPIPE', 'write EPIPE')), 'write EPIPE']
  ]
  for (const [call, sentence] of cases) t.equal(sentenceOf(await call().catch((error: unknown) => error)), sentence)
})

t.test('hasCode, isDenied and nullIfMissing check the code', async t => {
  t.ok(hasCode(failed('EEXIST', 'no'), 'ENOENT', 'EEXIST'))
  t.notOk(hasCode(failed('EEXIST', 'no'), 'ENOENT'))
  t.notOk(hasCode(null, 'ENOENT'))
  t.ok(isDenied(failed('EPERM', 'no')))
  t.notOk(isDenied(failed('EROFS', 'no')))
  t.equal(nullIfMissing(failed('ENOENT', 'no')), null)
  const other = failed('EIO', 'no')
  t.throws(() => nullIfMissing(other), other)
})

t.test('a refusal stays a refusal', async t => {
  const packed = structuredClone(
    packError(new Refusal('conflict', 'in_the_way', 'Nothing was changed', { field: 'x' }))
  )
  const refusal = unpackError(packed)
  t.ok(refusal instanceof Refusal)
  t.match(refusal, { kind: 'conflict', code: 'in_the_way', message: 'Nothing was changed', field: 'x' })
})

t.test('a disk error keeps its code, any other error its message', async t => {
  const error = Object.assign(new Error('full'), { code: 'ENOSPC', syscall: 'write' })
  t.match(unpackError(structuredClone(packError(error))), {
    message: 'full',
    code: 'ENOSPC',
    syscall: 'write',
    stack: error.stack
  })
  t.equal(unpackError(packError('a text')).message, 'a text')
})
