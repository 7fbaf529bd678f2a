import t from 'tap'
import { createLimiter } from '../../lib/auth/limiter.js'
import type { Failure, Origin } from '../../lib/auth/limiter.js'
import { setClock } from '../support/clock.js'

const minuteMs = 60_000
const wrong = () => null
const right = () => 'right'

/** A request as seen by the limiter. `claimed` is the first entry of X-Forwarded-For. */
function from(witnessed: string, { headers = {}, search = '', claimed = witnessed } = {}): Origin {
  return {
    headers,
    query: new URLSearchParams(search),
    client: { address: claimed, witnessed, viaProxy: claimed !== witnessed, local: false }
  }
}

function aLimiter() {
  const clock = setClock()
  const told: Failure[] = []
  const waits: number[] = []
  const limiter = createLimiter({
    clock,
    onFailure: (_client, failure) => void told.push(failure),
    wait: async ms => void waits.push(ms)
  })
  return { ...limiter, clock, told, waits }
}

const lockedOut = { kind: 'too_many', code: 'locked_out' }

t.test('8 failures in 10 minutes lock an address for 5 minutes', async t => {
  const { attempt, clock, told } = aLimiter()
  for (let i = 1; i <= 8; i++) t.equal(attempt(from('192.0.2.1'), wrong), null)
  t.throws(
    () => attempt(from('192.0.2.1'), right),
    { ...lockedOut, retryAfterSeconds: 300 },
    'even with the right token'
  )
  t.equal(attempt(from('192.0.2.2'), right), 'right', 'other addresses are not locked')
  t.same(told, [...Array(7).fill('wrong'), 'locked', 'refused'])

  clock.advance(4 * minuteMs)
  t.throws(() => attempt(from('192.0.2.1'), right), { ...lockedOut, retryAfterSeconds: 60 })
  clock.advance(minuteMs)
  t.equal(attempt(from('192.0.2.1'), right), 'right')
})

t.test('failures older than 10 minutes do not count', async t => {
  const { attempt, clock } = aLimiter()
  for (let i = 0; i < 7; i++) attempt(from('192.0.2.1'), wrong)
  clock.advance(10 * minuteMs)
  for (let i = 0; i < 7; i++) attempt(from('192.0.2.1'), wrong)
  t.equal(attempt(from('192.0.2.1'), right), 'right')
})

t.test('a success does not reset the count of failures', async t => {
  const { attempt } = aLimiter()
  for (let i = 0; i < 7; i++) attempt(from('192.0.2.1'), wrong)
  t.equal(attempt(from('192.0.2.1'), right), 'right')
  t.equal(attempt(from('192.0.2.1'), wrong), null)
  t.throws(() => attempt(from('192.0.2.1'), right), lockedOut)
})

t.test('right tokens are never failures, however many arrive at once', async t => {
  const { attempt, told } = aLimiter()
  const answers = await Promise.all(Array.from({ length: 40 }, async () => attempt(from('192.0.2.1'), right)))
  t.same(new Set(answers), new Set(['right']))
  t.same(told, [])
})

t.test('invented X-Forwarded-For entries have no effect', async t => {
  const { attempt } = aLimiter()
  for (let i = 1; i <= 8; i++) t.equal(attempt(from('192.0.2.9', { claimed: `10.0.0.${i}` }), wrong), null)
  t.throws(() => attempt(from('192.0.2.9', { claimed: '10.0.0.9' }), right), lockedOut)
})

t.test('counts IPv6 by /64 and IPv4 by address', async t => {
  const cases: Array<[first: string, second: string, isSame: boolean]> = [
    ['2001:db8:1:2::1', '2001:db8:1:2:ffff::9', true],
    ['2001:db8:1:2::1', '2001:db8:1:3::1', false],
    ['192.0.2.1', '192.0.2.2', false]
  ]
  for (const [first, second, isSame] of cases) {
    const { attempt } = aLimiter()
    for (let i = 0; i < 8; i++) attempt(from(first), wrong)
    const again = () => attempt(from(second), right)
    if (isSame) t.throws(again, lockedOut, `${first} and ${second}`)
    else t.equal(again(), 'right', `${first} and ${second}`)
  }
})

t.test('requests caused by a web page do not lock out programs at the same address', async t => {
  const ways: Array<[what: string, origin: Origin]> = [
    ['an Origin', from('127.0.0.1', { headers: { host: '127.0.0.1:5431', origin: 'https://evil.test' } })],
    ['fetch metadata', from('127.0.0.1', { headers: { host: '127.0.0.1:5431', 'sec-fetch-site': 'cross-site' } })],
    ['a ticket, as <img> sends it', from('127.0.0.1', { headers: { host: '127.0.0.1:5431' }, search: 'ticket=guess' })],
    ['a rebound name', from('127.0.0.1', { headers: { host: 'evil.test:5431' } })]
  ]
  for (const [what, origin] of ways) {
    const { attempt } = aLimiter()
    for (let i = 0; i < 8; i++) attempt(origin, wrong)
    t.throws(() => attempt(origin, right), lockedOut, what)
    for (const host of ['127.0.0.1:5431', 'localhost:5431', '[::1]:5431']) {
      t.equal(attempt(from('127.0.0.1', { headers: { host } }), right), 'right', `${what}; then a program at ${host}`)
    }
  }
})

t.test('the operator at the local socket is exempt', async t => {
  const { attempt, told } = aLimiter()
  const local: Origin = {
    headers: {},
    query: new URLSearchParams(),
    client: { address: 'local', witnessed: 'local', viaProxy: false, local: true }
  }
  for (let i = 0; i < 20; i++) t.equal(attempt(local, wrong), null)
  t.equal(attempt(local, right), 'right')
  t.same(told, [])
})

/** Causes 200 failures from 200 addresses. */
function brake(attempt: ReturnType<typeof aLimiter>['attempt']): void {
  for (let i = 0; i < 200; i++) void attempt(from(`10.1.${i}.1`), wrong)
}

t.test('answers failures one by one after 200 failures in total', async t => {
  const { attempt, waits } = aLimiter()
  brake(attempt)
  t.same(waits, [], 'no delay before that')
  const answers = await Promise.all([1, 2, 3, 4].map(i => attempt(from(`10.2.0.${i}`), wrong)))
  t.same(answers, [null, null, null, null])
  t.same(waits, [1000, 2000, 3000, 4000])
})

t.test('does not delay the right token of an address without failures', async t => {
  const { attempt, waits } = aLimiter()
  brake(attempt)
  t.equal(attempt(from('10.2.0.1'), right), 'right')
  t.same(waits, [])
})

t.test('an address with a failure waits before its token is checked', async t => {
  const { attempt, waits } = aLimiter()
  brake(attempt)
  let checks = 0
  const check = () => (checks++, 'right')
  const first = attempt(from('10.1.0.1'), check)
  t.equal(checks, 0)
  t.throws(() => attempt(from('10.1.0.1'), check), {
    kind: 'too_many',
    code: 'too_many_failures',
    retryAfterSeconds: 1
  })
  t.equal(await first, 'right')
  t.equal(checks, 1)
  t.same(waits, [1000])
})

t.test('limits the waiting checks and refuses the rest without a check', async t => {
  const { attempt, waits, told } = aLimiter()
  brake(attempt)
  const outcomes = await Promise.all(
    Array.from({ length: 40 }, async (_, i) => attempt(from(`10.1.${i}.1`), right)).map(one =>
      one.catch(({ code }) => code)
    )
  )
  t.equal(outcomes.filter(outcome => outcome === 'right').length, 30)
  t.equal(outcomes.filter(outcome => outcome === 'too_many_failures').length, 10)
  t.equal(waits.at(-1), 30_000)
  t.equal(told.filter(failure => failure === 'refused').length, 10)
})

t.test('allows invented addresses a thousand guesses, then one per second', async t => {
  const { attempt, clock } = aLimiter()
  t.equal(attempt(from('192.0.2.1'), right), 'right')
  brake(attempt)
  let checks = 0
  const guess = (n: number) => attempt(from(`2001:db8:${n.toString(16)}::1`), () => (checks++, null))
  for (let n = 1; n <= 1000; n++) void guess(n)
  t.equal(checks, 1000)
  t.throws(() => guess(1001), { code: 'too_many_failures' })
  t.equal(checks, 1000, 'no token is checked')
  t.equal(attempt(from('192.0.2.1'), right), 'right', 'an address with an earlier right token is not delayed')
  clock.advance(10_000)
  for (let n = 1001; n <= 1100; n++) {
    try {
      void guess(n)
    } catch {}
  }
  t.equal(checks, 1010)
})

t.test('the delay ends when the failures are old', async t => {
  const { attempt, clock, waits } = aLimiter()
  brake(attempt)
  clock.advance(10 * minuteMs)
  t.equal(attempt(from('10.1.0.1'), wrong), null)
  t.same(waits, [])
})
