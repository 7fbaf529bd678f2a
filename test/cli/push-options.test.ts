import t from 'tap'
import {
  bothZones,
  checkFromHere,
  readAt,
  readConfirmOptions,
  readRolloutOptions,
  refuseLate,
  refuseWithPlan,
  requireConfirmFeature,
  requirePlacement
} from '../../lib/cli/push-options.js'
import { defaultRolloutPolicy } from '../../lib/model/rollout.js'
import type { UploadPermit } from '../../lib/model/access.js'
import { statusServer } from '../support/held.js'

const none = {
  canary: undefined,
  then: undefined,
  pause: undefined,
  'max-failures': undefined,
  'max-unreachable': undefined,
  'on-failure': undefined,
  order: undefined
}

t.test('--at on the days on which the clock is changed', async t => {
  const { TZ } = process.env
  t.teardown(() => {
    if (TZ === undefined) delete process.env['TZ']
    else process.env['TZ'] = TZ
  })
  const table: Array<[zone: string, now: string, at: string, expected: string | RegExp]> = [
    ['Europe/Berlin', '2026-07-01T12:00Z', '02:30', '2026-07-02T00:30'],
    ['Europe/Berlin', '2026-07-31T22:30Z', '00:29', '2026-08-01T22:29'],
    // Back at 03:00: 02:30 comes at 00:30 and at 01:30 UTC.
    ['Europe/Berlin', '2026-10-24T18:00Z', '02:30', '2026-10-25T00:30'],
    ['Europe/Berlin', '2026-10-25T00:40Z', '02:30', '2026-10-25T01:30'],
    ['Europe/Berlin', '2026-10-25T01:30Z', '02:30', '2026-10-26T01:30'],
    ['Europe/Berlin', '2026-10-25T00:40Z', '2026-10-25T02:30', '2026-10-25T01:30'],
    ['Europe/Berlin', '2026-10-25T00:40Z', '2026-10-25 02:30:15', '2026-10-25T01:30'],
    ['Europe/Berlin', '2026-10-25T00:40Z', '2026-10-25T02:30+02:00', /that time has passed/],
    ['Europe/Berlin', '2026-10-25T00:40Z', '03:00', '2026-10-25T02:00'],
    ['Australia/Lord_Howe', '2026-04-04T14:50Z', '01:45', '2026-04-04T15:15'],
    // Forward at 02:00: 02:30 does not come.
    ['Europe/Berlin', '2027-03-27T20:00Z', '02:30', '2027-03-28T01:00'],
    ['Europe/Berlin', '2027-03-28T01:10Z', '02:30', '2027-03-29T00:30'],
    ['Europe/Berlin', '2027-03-28T01:40Z', '02:30', '2027-03-29T00:30'],
    ['Europe/Berlin', '2027-03-27T20:00Z', '2027-03-28T02:30', /the clock is set forward over that time/],
    ['Europe/Berlin', '2027-03-27T20:00Z', '2027-03-28T03:00', '2027-03-28T01:00'],
    ['Europe/Berlin', '2027-03-27T20:00Z', '2027-03-28T02:30Z', '2027-03-28T02:30'],
    ['UTC', '2026-02-01T00:00Z', '2026-02-30T02:00', /must be like/],
    ['UTC', '2026-02-01T00:00Z', '2026-02-30T02:00Z', /must be like/],
    ['UTC', '2026-02-01T00:00Z', '2026-13-01T02:00', /must be like/],
    ['UTC', '2026-02-01T00:00Z', '2026-02-27T25:00', /must be like/],
    ['UTC', '2026-02-01T00:00Z', '2026-02-27T24:00', '2026-02-28T00:00'],
    ['UTC', '2026-02-01T00:00Z', '2026-01-31T00:00', /that time has passed/]
  ]
  for (const [zone, now, at, expected] of table) {
    process.env['TZ'] = zone
    const what = `${at} in ${zone}, at ${now}`
    const read = () => readAt(at, Date.parse(now))
    if (typeof expected === 'string') t.match(read(), expected, what)
    else t.throws(read, { code: 'usage', message: expected }, what)
  }
  process.env['TZ'] = 'Europe/Berlin'
  t.match(bothZones('2026-10-25T01:30:00.000Z'), '2026-10-25 02:30 (Europe/Berlin), 2026-10-25 01:30 UTC')
})

t.test('options become keys of the policy, and times become seconds', async t => {
  t.equal(await readRolloutOptions(none), undefined)
  t.same(await readRolloutOptions({ ...none, canary: 2, then: '25%', pause: '2m', 'max-failures': 0 }), {
    canary: 2,
    then: '25%',
    pause: 120,
    maxFailures: 0
  })
  t.same(
    await readRolloutOptions({ ...none, pause: 'approve', 'on-failure': 'revert_all', 'max-unreachable': '10%' }),
    {
      pause: 'approve',
      onFailure: 'revert_all',
      maxUnreachable: '10%'
    }
  )
})

t.test('a wrong value is refused by its flag', async t => {
  const wrong = { then: '0', pause: '1 minute', 'max-unreachable': 'half', order: 'no spaces' }
  for (const [flag, value] of Object.entries(wrong))
    await t.rejects(readRolloutOptions({ ...none, [flag]: value }), { code: 'usage', field: `--${flag}` }, flag)
})

t.test('a project without nodes refuses options about waves', async t => {
  const permit = { rollout: null } as UploadPermit
  t.throws(() => requirePlacement({ maxFailures: 1 }, permit), {
    code: 'project_not_placed',
    message: /--max-failures/
  })
  t.throws(() => requirePlacement({ canary: 1 }, null), { code: 'project_not_placed' }, 'an older server')
  t.doesNotThrow(() => requirePlacement(undefined, permit))
  const rollout = { nodes: 1, waves: 1, policy: defaultRolloutPolicy }
  t.doesNotThrow(() => requirePlacement({ canary: 1 }, { ...permit, rollout }))
})

t.test('what a command cannot do later, or with a plan, is refused', async t => {
  const at = '02:00'
  refuseLate({ at: undefined, receipt: 'a' })
  refuseLate({ at })
  t.throws(() => refuseLate({ at, receipt: 'a' }), { field: '--receipt', message: /--receipt and --at exclude/ })
  t.throws(() => refuseLate({ at, 'check-from-here': 'https://a' }), { message: /Confirm with "svc confirm"$/ })
  const none = { prune: undefined, force: false, 'dry-run': false }
  refuseWithPlan({ ...none, plan: 'a' })
  refuseWithPlan({ plan: undefined, prune: 'force', force: true, 'dry-run': true })
  for (const given of [{ prune: 'force' }, { force: true }, { 'dry-run': true }])
    t.throws(() => refuseWithPlan({ ...none, plan: 'a', ...given }), { code: 'usage', field: '--plan' })
})

t.test('reads times', async t => {
  t.strictSame(readConfirmOptions(undefined, undefined), { seconds: null, checkUrl: null })
  for (const [text, seconds] of Object.entries({ '90': 90, '90s': 90, '10m': 600, '24h': 86_400 })) {
    t.equal(readConfirmOptions(text, undefined).seconds, seconds, text)
  }
  for (const text of ['', '9s', '25h', '1.5m', '-90', '90 s', '1d']) {
    t.throws(() => readConfirmOptions(text, undefined), { message: /--confirm cannot be/ }, text)
  }
})

t.test('reads the URL to check', async t => {
  t.equal(readConfirmOptions('90s', 'https://shop.example.org/up').checkUrl?.href, 'https://shop.example.org/up')
  t.throws(() => readConfirmOptions(undefined, 'https://a'), { message: /needs --confirm/ })
  for (const url of ['shop', 'ftp://a', '']) {
    t.throws(() => readConfirmOptions('90s', url), { message: /--check-from-here cannot be/ }, url)
  }
})

t.test('refuses a server that would ignore the field', async t => {
  const permit = { features: ['confirm'] } as Partial<UploadPermit> as UploadPermit
  const asked = readConfirmOptions('90s', undefined)
  requireConfirmFeature(asked, permit)
  requireConfirmFeature(readConfirmOptions(undefined, undefined), null)
  t.throws(() => requireConfirmFeature(asked, null), { code: 'server_too_old' })
  t.throws(() => requireConfirmFeature(asked, {} as UploadPermit), { code: 'server_too_old' })
})

function stage(url: string, confirm = async () => {}) {
  const confirmed: string[] = []
  const notes: string[] = []
  const stop = new AbortController()
  const check = (ms: number): Promise<void> =>
    checkFromHere(
      { until: new Date(Date.now() + ms).toISOString() },
      {
        confirm: async () => (await confirm(), void confirmed.push('dep_a')),
        url: new URL(url),
        note: line => notes.push(line),
        signal: stop.signal
      }
    )
  return { check, confirmed, notes, stop }
}

t.test('confirms as soon as the URL answers', async t => {
  const server = await statusServer(t)
  server.status = 502
  const { check, confirmed, notes } = stage(server.url)
  setTimeout(() => (server.status = 204), 300)
  await check(60_000)
  t.strictSame(confirmed, ['dep_a'])
  t.strictSame(notes, [`${server.url}: 502`, `${server.url}: 204`])
})

t.test('confirms nothing if the URL does not answer in time', async t => {
  const server = await statusServer(t)
  server.status = 302
  const { check, confirmed } = stage(server.url)
  await check(300)
  t.strictSame(confirmed, [])
})

t.test('says why it cannot confirm, and stops when the user does', async t => {
  const server = await statusServer(t)
  const failing = stage(server.url, async () => {
    throw new Error('too late')
  })
  await failing.check(60_000)
  t.match(failing.notes.at(-1), /Cannot confirm the deployment: too late/)
  server.status = 500
  const { check, stop, notes } = stage(server.url)
  setTimeout(() => stop.abort(), 100)
  await check(60_000)
  t.strictSame(notes, [`${server.url}: 500`])
})
