import t from 'tap'
import {
  answerTo,
  listedEntries,
  measuredSizes,
  openDescriptor,
  packingResult
} from '../../lib/install/helper-answers.js'
import type { Job } from '../../lib/install/unpack/extract-threads.js'

const hex = 'ab'.repeat(32)
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const target = '/srv/site'
const rules = { home: '/data' }
const jobs = {
  extract: { kind: 'extract' } as Job,
  recover: { kind: 'recover', journalPath: '/data/a.undo', placed: 'leave' } as Job,
  compare: { kind: 'compare' } as Job,
  file: { kind: 'file', file: { target, path: 'a', readBytes: 8 } } as Job,
  verify: { kind: 'verify', verify: { target, rules, entries: [{}, {}] } } as unknown as Job,
  mark: { kind: 'mark', mark: { target, rules, owned: 'x' } } as Job,
  look: { kind: 'look', look: { target, rules, entries: [{}, {}] } } as unknown as Job
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
