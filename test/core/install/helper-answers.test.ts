import t from 'tap'
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, constants, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  answerTo,
  listedEntries,
  measuredSizes,
  openDescriptor,
  packingResult,
  takeOver
} from '../../../lib/core/install/helper-answers.js'
import type { HelpedJob } from '../../../lib/core/install/unpack/extract-threads.js'
import { runHelper } from '../../../lib/core/proc/helper.js'
import { findIdentity, maySwitchUser } from '../../../lib/core/proc/identity.js'
import { openDirectory } from '../../support/open-directory.js'
import type { HostileJob } from '../../support/hostile-helper.js'

const hex = 'ab'.repeat(32)
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const target = '/srv/site'
const rules = { home: '/data' }
const jobs = {
  extract: { kind: 'extract' } as HelpedJob,
  recover: { kind: 'recover', journalPath: '/data/a.undo', placed: 'leave' } as HelpedJob,
  compare: { kind: 'compare' } as HelpedJob,
  file: { kind: 'file', file: { target, path: 'a', readBytes: 8 } } as HelpedJob,
  verify: { kind: 'verify', verify: { target, rules, entries: [{}, {}] } } as unknown as HelpedJob,
  mark: { kind: 'mark', mark: { target, rules, owned: 'x' } } as HelpedJob,
  look: { kind: 'look', look: { target, rules, entries: [{}, {}] } } as unknown as HelpedJob
}
const now = { mode: 0o100644, size: 1, sha256: hex, mtimeMs: -0.5, ino: 7 }
const extracted = {
  fileCount: 1,
  changedCount: 1,
  modeCount: 0,
  removedCount: 0,
  changes: [base64('a\n')],
  bytes: 2,
  treeSha256: hex,
  replaced: {
    count: 2,
    files: [
      { path: 'a', since: 'dep_1', isGone: undefined },
      { path: 'b', since: '', isGone: true }
    ]
  },
  kept: null,
  beforeFrom: ['dep_1', 'before'],
  beforeBytes: 3
}
const kinds = [
  'added',
  'changed',
  'timeOnly',
  'unchanged',
  'kept',
  'pruned',
  'drifted',
  'foreign',
  'unowned',
  'protected',
  'conflicts'
]
const compared = {
  treeSha256: hex,
  counts: Object.fromEntries(kinds.map(kind => [kind, 1])),
  paths: {
    ...Object.fromEntries(kinds.map(kind => [kind, ['a\nb']])),
    unowned: [{ path: 'a\nb', size: 1 }],
    protected: [{ path: 'a', size: 1, glob: 'a/**' }],
    drifted: [
      {
        path: 'a',
        owned: hex,
        found: null,
        mtime: '2026-01-01T00:00:00.000Z',
        size: 1,
        since: 'dep_1',
        overwritten: true
      }
    ],
    conflicts: [{ path: 'a', code: 'x', message: 'y' }],
    truncated: false
  },
  bytes: { changed: 1, extracted: 2, diskNeeded: 3, diskFree: null },
  checks: [{ name: 'target_writable', ok: true }],
  expected: {
    plannedAtMs: 1,
    marks: base64('12345678'),
    foundSha256: hex,
    digits: 16,
    wantedSha256: hex,
    contentsSha256: hex,
    removedSha256: hex,
    removedMarks: base64('12345678')
  }
}
const entry = {
  name: 'a',
  path: 'b/a',
  isDir: false,
  isHidden: false,
  size: 2 ** 60,
  mtime: '+010000-01-01T00:00:00.000Z'
}

t.test('accepts what svc itself answers', async t => {
  t.match(answerTo(jobs.extract)({ kind: 'extracted', extracted }), {
    kind: 'extracted',
    extracted: { ...extracted, changes: [new Uint8Array(Buffer.from('a\n'))] }
  })
  const displaced = { directory: '.svc-displaced-dep_1', paths: ['a'], count: 1, notBack: ['b'] }
  for (const each of [displaced, null]) {
    const answer = { kind: 'recovered', recovery: 'put back', displaced: each }
    t.strictSame(answerTo(jobs.recover)(answer), answer)
  }
  t.match(answerTo(jobs.compare)({ kind: 'compared', compared }), {
    compared: { ...compared, expected: { marks: new Uint8Array(Buffer.from('12345678')) } }
  })
  t.strictSame(answerTo(jobs.file)({ kind: 'found', found: { is: 'absent' } }), {
    kind: 'found',
    found: { is: 'absent' }
  })
  const file = { is: 'file', sha256: hex, size: 3, contents: base64('abc'), isRemoved: false }
  t.match(answerTo(jobs.file)({ kind: 'found', found: file }), { found: { size: 3, isRemoved: false } })
  const findings = [{ index: 1, state: 'missing' }]
  t.strictSame(answerTo(jobs.verify)({ kind: 'verified', findings }), { kind: 'verified', findings })
  t.strictSame(answerTo(jobs.mark)({ kind: 'marked', marks: base64('12345678') }), {
    kind: 'marked',
    marks: new Uint8Array(Buffer.from('12345678'))
  })
  const looked = [
    { index: 0, now: { ...now, gid: 33 }, kept: 'scripted' },
    { index: 1, now: null, kept: 'before' }
  ]
  t.strictSame(answerTo(jobs.look)({ kind: 'looked', looked }), { kind: 'looked', looked })
  t.strictSame(listedEntries([entry]), [entry])
  t.equal(openDescriptor(20), 20)
  t.strictSame(measuredSizes(2)([1, null]), [1, null])
  t.strictSame(packingResult({ bytes: 1, note: null }), { bytes: 1, note: null })
})

t.test('accepts nothing else', async t => {
  const hostile: Array<[what: string, read: (value: unknown) => unknown, values: unknown[]]> = [
    [
      'extract',
      answerTo(jobs.extract),
      [
        null,
        { kind: 'recovered', recovery: 'complete', displaced: null },
        ...Object.keys(extracted).flatMap(key => [
          { kind: 'extracted', extracted: { ...extracted, [key]: { valueOf: 1 } } },
          { kind: 'extracted', extracted: { ...extracted, [key]: -1 } },
          { kind: 'extracted', extracted: { ...extracted, [key]: '1' } }
        ]),
        { kind: 'extracted', extracted: { ...extracted, beforeFrom: ['../../other'] } },
        { kind: 'extracted', extracted: { ...extracted, beforeFrom: [7] } }
      ]
    ],
    [
      'recover',
      answerTo(jobs.recover),
      [
        { kind: 'recovered', recovery: 'other', displaced: null },
        { kind: 'recovered', recovery: 'complete', displaced: { directory: '../x', paths: [], count: 0 } },
        { kind: 'recovered', recovery: 'complete', displaced: { directory: 'etc', paths: [], count: 0 } }
      ]
    ],
    [
      'compare',
      answerTo(jobs.compare),
      Object.keys(compared).map(key => ({ kind: 'compared', compared: { ...compared, [key]: 'x' } }))
    ],
    [
      'file',
      answerTo(jobs.file),
      [
        { kind: 'found', found: { is: 'elsewhere' } },
        {
          kind: 'found',
          found: { is: 'file', sha256: hex, size: 3, contents: base64('x'.repeat(99)), isRemoved: false }
        },
        { kind: 'found', found: { is: 'file', sha256: 'x', size: 3, contents: null, isRemoved: false } }
      ]
    ],
    [
      'verify',
      answerTo(jobs.verify),
      [
        { kind: 'verified', findings: [{ index: 2, state: 'missing' }] },
        { kind: 'verified', findings: [{ index: -1, state: 'missing' }] },
        { kind: 'verified', findings: [{ index: 0, state: 'fine' }] },
        { kind: 'verified', findings: Array.from({ length: 3 }, () => ({ index: 0, state: 'missing' })) }
      ]
    ],
    ['mark', answerTo(jobs.mark), [{ kind: 'marked', marks: 7 }, { kind: 'marked' }]],
    [
      'look',
      answerTo(jobs.look),
      [
        { kind: 'looked', looked: [{ index: 2, now, kept: 'scripted' }] },
        { kind: 'looked', looked: [{ index: 0, now, kept: 'archive:dep_1' }] },
        { kind: 'looked', looked: [{ index: 0, now: { ...now, sha256: '../x' }, kept: 'none' }] },
        { kind: 'looked', looked: Array.from({ length: 3 }, () => ({ index: 0, now, kept: 'none' })) }
      ]
    ],
    [
      'list',
      listedEntries,
      [
        {},
        [{ ...entry, name: '../a' }],
        [{ ...entry, name: '' }],
        [{ ...entry, mtime: '<script>' }],
        [{ ...entry, size: -1 }],
        Array.from({ length: 10_001 }, () => entry)
      ]
    ],
    ['open', openDescriptor, [-1, 0.5, '4', { fd: 4 }, 2 ** 31, null, [4]]],
    ['measure', measuredSizes(1), [[], [1, 2], ['1'], [-1], [Number.NaN], 7]],
    ['pack', packingResult, [{ bytes: -1, note: null }, { bytes: 1, note: 7 }, 'x']]
  ]
  for (const [what, read, values] of hostile) {
    // `kept` and `replaced` are objects: an object of another form is tried as well.
    for (const value of values) t.throws(() => read(value), `${what}: ${JSON.stringify(value).slice(0, 120)}`)
  }
})

const module = new URL('../../support/hostile-helper.js', import.meta.url)
const options = maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' }
const pathOnly = 0o10000000

t.test('svc takes over what the process has open for reading in the target, and nothing else', options, async t => {
  const rights = { identity: await findIdentity('nobody'), umask: null }
  const { uid, gid } = rights.identity
  const directory = openDirectory(t)
  const target = join(directory, 'target')
  mkdirSync(target)
  const own = join(target, 'own')
  const secret = join(target, 'of-root')
  const outside = join(directory, 'outside')
  for (const path of [own, secret, outside]) writeFileSync(path, path)
  chmodSync(secret, 0o600)
  chmodSync(outside, 0o644)
  const staging = join(target, '.svc-staging-dep_1')
  mkdirSync(staging)
  writeFileSync(join(staging, 'file'), 'x')
  symlinkSync(outside, join(target, 'link'))
  const pipe = join(target, 'pipe')
  execFileSync('mkfifo', [pipe])
  chmodSync(pipe, 0o666)
  for (const path of [target, own]) chownSync(path, uid, gid)

  const take = (job: HostileJob): Promise<string> =>
    runHelper({ module, rights, job, read: openDescriptor }, async (fd, process) => {
      const file = await takeOver({ target, path: 'asked', fd }, process)
      try {
        return `${file.path} ${file.name} ${file.size} ${await file.handle.readFile('utf8')}`
      } finally {
        await file.handle.close()
      }
    })
  const open = (path: string, flags: number = constants.O_RDONLY, fd?: number): Promise<string> =>
    take({ do: 'open', path, flags, ...(fd === undefined ? {} : { fd }) })

  t.equal(await open(own), `${own} own ${own.length} ${own}`)
  t.equal(await open(own, constants.O_RDWR), `${own} own ${own.length} ${own}`)
  await t.rejects(open(secret, pathOnly), { kind: 'forbidden', code: 'not_readable' }, 'a descriptor without the right')
  await t.rejects(open(own, constants.O_WRONLY), { code: 'not_readable' })
  await t.rejects(open(outside), { code: 'outside_target' })
  await t.rejects(open(outside, pathOnly), { code: 'outside_target' })
  await t.rejects(open(join(target, 'link')), { code: 'outside_target' })
  await t.rejects(open(join(staging, 'file')), { code: 'not_found' })
  await t.rejects(open(pipe, constants.O_RDONLY | constants.O_NONBLOCK), { code: 'not_a_file' })
  await t.rejects(open(target), { code: 'not_a_file' })
  await t.rejects(open(own, constants.O_RDONLY, 3), { code: 'not_a_file' }, 'the connection')
  await t.rejects(open(own, constants.O_RDONLY, 999_999), { code: 'changed_meanwhile' })
  for (const fd of [-1, 1.5, 2 ** 40]) await t.rejects(open(own, constants.O_RDONLY, fd), { code: 'helper_failed' })
})

t.test('a process that is another one by now is not asked', options, async t => {
  const rights = { identity: await findIdentity('nobody'), umask: null }
  const target = openDirectory(t)
  writeFileSync(join(target, 'file'), 'x')
  const job: HostileJob = { do: 'open', path: join(target, 'file'), flags: constants.O_RDONLY }
  await t.rejects(
    runHelper({ module, rights, job, read: openDescriptor }, (fd, { pid }) =>
      takeOver({ target, path: 'file', fd }, { pid, startedAt: '7' })
    ),
    { code: 'changed_meanwhile' }
  )
})
