import t from 'tap'
import { createPartSender } from '../../../lib/fleet/relay/part-sender.js'
import { Refusal } from '../../../lib/base/errors.js'
import { relayPartBytes } from '../../../lib/model/fleet-wire.js'

const never = new AbortController().signal
type Part = { number: number; isLast: boolean; bytes: Buffer }

t.test('a short answer is one part, a long one several of the maximum size', async t => {
  const sent: Part[] = []
  const short = createPartSender(async part => void sent.push(part), never)
  await short.write(Buffer.from('head\n'))
  await short.write(Buffer.from('body'))
  await short.end()
  t.match(sent, [{ number: 1, isLast: true }])
  t.equal(String(sent[0]?.bytes), 'head\nbody')

  const parts: Part[] = []
  const long = createPartSender(async part => void parts.push(part), never)
  const bytes = Buffer.alloc(relayPartBytes * 2 + 10, 'x')
  for (let at = 0; at < bytes.length; at += 100_000) await long.write(bytes.subarray(at, at + 100_000))
  await long.end()
  t.equal(Buffer.concat(parts.map(part => part.bytes)).length, bytes.length)
  t.ok(parts.every(part => part.bytes.length <= relayPartBytes))
  t.strictSame(
    parts.map(({ number }) => number),
    parts.map((_, at) => at + 1)
  )
  t.strictSame(parts.filter(({ isLast }) => isLast).length, 1)
  t.ok(parts.at(-1)?.isLast)
})

t.test('a part is sent again after a network failure, and the answer given up if nobody waits for it', async t => {
  let failures = 1
  const sent: Part[] = []
  const sender = createPartSender(async part => {
    if (failures-- > 0) throw new Error('network')
    sent.push(part)
  }, never)
  await sender.write(Buffer.from('a'))
  await sender.end()
  t.equal(sent.map(({ bytes }) => String(bytes)).join(''), 'a')

  const unwanted = createPartSender(async () => {
    throw new Refusal('not_found', 'not_found', 'Relay not found')
  }, never)
  await unwanted.write(Buffer.from('a'))
  await t.rejects(unwanted.end(), { code: 'not_found' })
  await t.rejects(unwanted.write(Buffer.from('b')), { code: 'not_found' })
})
