import t from 'tap'
import { createFailureCounters, Limiter, type Failure, type Origin } from '../../lib/access/limiter.js'
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
  const limiter = new Limiter({
    clock,
    onFailure: (_client, failure) => void told.push(failure),
    wait: async ms => void waits.push(ms)
  })
  const attempt: Limiter['attempt'] = (...given) => limiter.attempt(...given)
  return { attempt, clock, told, waits }
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

const generatedRight = 'Zq3-kX0vT8bLr2_mWc7yHn5dJf9gPs1aUe6oKi4tQxB'
const generatedWrong = generatedRight.replace('Zq3', 'Yr4')
const chosen = 'a-token-that-somebody-chose-1'

/** A bearer of `secret`. Only `valid` is right. */
const bearer = (secret: string, valid: string) =>
  [() => (secret === valid ? 'right' : null), { secret }] as [() => string | null, { secret: string }]

t.test('a right bearer passes while its address is locked, and a wrong one gets 429', async t => {
  for (const valid of [
    generatedRight,
    `svc_abcdefgh_${generatedRight}_x2Y4z6`,
    '3fa9c07d1e5b862f40d7a8e19b3c56f2'.repeat(2)
  ]) {
    const { attempt, waits, clock, told } = aLimiter()
    for (let i = 1; i <= 8; i++) t.equal(attempt(from('192.0.2.1'), ...bearer(generatedWrong, valid)), null)
    for (let i = 0; i < 100; i++) {
      t.throws(() => attempt(from('192.0.2.1'), ...bearer(generatedWrong, valid)), {
        ...lockedOut,
        retryAfterSeconds: 300,
        message: /Use a valid one/
      })
      t.equal(attempt(from('192.0.2.1'), ...bearer(valid, valid)), 'right', valid)
    }
    t.same(waits, [], 'it does not wait')
    t.throws(() => attempt(from('192.0.2.1'), right), lockedOut, 'a login is locked')
    clock.advance(5 * minuteMs)
    t.equal(attempt(from('192.0.2.1'), right), 'right', 'failures during the lock do not prolong it')
    t.equal(told.filter(failure => failure === 'locked').length, 1)
  }
})

t.test('a token that somebody chose takes a turn while its address is locked', async t => {
  const { attempt, waits } = aLimiter()
  for (let i = 1; i <= 8; i++) attempt(from('192.0.2.1'), ...bearer('stale', chosen))
  const wrongOne = Promise.resolve(attempt(from('192.0.2.1'), ...bearer('wrong', chosen)))
  const rightOne = attempt(from('192.0.2.1'), ...bearer(chosen, chosen))
  t.same(waits, [1000, 2000])
  await t.rejects(wrongOne, lockedOut)
  t.equal(await rightOne, 'right')
})

t.test('many jobs with one old token take one turn', async t => {
  const { attempt, waits } = aLimiter()
  for (let i = 1; i <= 8; i++) attempt(from('192.0.2.1'), ...bearer('stale', chosen))
  const jobs = Array.from({ length: 50 }, async () => attempt(from('192.0.2.1'), ...bearer('stale', chosen)))
  const passing = attempt(from('192.0.2.1'), ...bearer(chosen, chosen))
  t.same(waits, [1000, 2000])
  for (const job of jobs) await t.rejects(job, lockedOut)
  t.equal(await passing, 'right')
})

t.test('a locked address has few turns, one a second with those of other addresses', async t => {
  const { attempt, waits } = aLimiter()
  const guess = async (address: string, guessed: string) => attempt(from(address), ...bearer(guessed, chosen))
  let checks = 0
  for (const address of ['192.0.2.1', '192.0.2.2']) {
    for (let i = 1; i <= 8; i++) attempt(from(address), ...bearer('stale', chosen))
    const codes = Array.from({ length: 100 }, (_, i) =>
      guess(address, `guess ${i}`).then(
        () => 'none',
        ({ code }) => (checks += Number(code === 'locked_out')) && code
      )
    )
    await Promise.all(codes)
  }
  t.equal(checks, 16)
  t.equal(waits.at(-1), 16_000)
})

t.test('a form that somebody can remember is no generated one', async t => {
  for (const secret of ['x'.repeat(43), 'correct-horse-battery-staple-correct-horses', 'f'.repeat(64), '']) {
    const { attempt, waits } = aLimiter()
    for (let i = 1; i <= 8; i++) attempt(from('192.0.2.1'), ...bearer('stale', secret))
    t.equal(await attempt(from('192.0.2.1'), ...bearer(secret, secret)), 'right')
    t.same(waits, [1000], secret)
  }
})

t.test('a generated token passes the brake, and a wrong one is treated like any other', async t => {
  const { attempt, waits } = aLimiter()
  brake(attempt)
  t.equal(attempt(from('10.1.0.1'), ...bearer(generatedRight, generatedRight)), 'right')
  t.same(waits, [])
  let checks = 0
  const check = () => (checks++, null)
  t.equal(await attempt(from('10.1.0.1'), check, { secret: generatedWrong }), null)
  t.equal(await attempt(from('10.9.0.1'), check, { secret: generatedWrong }), null)
  t.equal(checks, 2, 'each is checked once')
  t.same(waits, [1000, 2000])
})

t.test('the first entry of X-Forwarded-For is counted, too, and its lock stops wrong tokens only', async t => {
  const { attempt, clock } = aLimiter()
  const behind = (n: number) => from(`192.0.2.${n}`, { claimed: '10.0.0.1' })
  for (let i = 1; i <= 8; i++) t.equal(attempt(behind(i), wrong), null)
  t.throws(() => attempt(behind(9), wrong), { ...lockedOut, retryAfterSeconds: 300 })
  t.equal(attempt(behind(10), right), 'right', 'a login')
  t.equal(attempt(behind(10), ...bearer(chosen, chosen)), 'right', 'a bearer')
  t.equal(attempt(from('192.0.2.10', { claimed: '10.0.0.2' }), wrong), null, 'another claim')
  t.equal(attempt(from('10.0.0.1'), wrong), null, 'the address itself is not locked by claims')
  clock.advance(5 * minuteMs)
  t.equal(attempt(behind(9), wrong), null)
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

t.test('8 failures in 10 minutes lock a key for 5 minutes', async t => {
  const counters = createFailureCounters()
  for (let i = 1; i < 8; i++) t.equal(counters.count('a', i), false)
  t.equal(counters.lockedMs('a', 8), 0)
  t.equal(counters.count('a', 8), true)
  t.equal(counters.lockedMs('a', 8), 5 * minuteMs)
  t.equal(counters.lockedMs('b', 8), 0)
  t.equal(counters.count('a', 9), false)
  t.equal(counters.lockedMs('a', 9), 5 * minuteMs - 1, 'a failure during the lock does not prolong it')
  t.equal(counters.lockedMs('a', 8 + 5 * minuteMs), 0)
  t.equal(counters.hasFailed('a', 8 + 6 * minuteMs), true)
  t.equal(counters.hasFailed('a', 8 + 15 * minuteMs), false)
})

t.test('old failures do not count', async t => {
  const counters = createFailureCounters()
  for (let i = 0; i < 7; i++) counters.count('a', 0)
  t.equal(counters.hasFailed('a', 10 * minuteMs - 1), true)
  t.equal(counters.hasFailed('a', 10 * minuteMs), false)
  t.equal(counters.count('a', 10 * minuteMs), false)
})

t.test('the number of keys is limited: the one that failed first is forgotten', async t => {
  const counters = createFailureCounters()
  for (let i = 0; i <= 20_000; i++) counters.count(`key ${i}`, 0)
  t.equal(counters.hasFailed('key 0', 0), false)
  t.equal(counters.hasFailed('key 1', 0), true)
})
