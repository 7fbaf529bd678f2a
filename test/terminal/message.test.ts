import t from 'tap'
import { readMessage } from '../../lib/terminal/message.js'

t.test('accepts the messages of a client', async t => {
  t.same(readMessage('{"type":"input","data":"ls\\r","more":1}'), { type: 'input', data: 'ls\r' })
  t.same(readMessage('{"type":"resize","cols":132,"rows":43}'), { type: 'resize', cols: 132, rows: 43 })
  t.same(readMessage('{"type":"ping"}'), { type: 'ping' })
  t.same(readMessage('{"type":"ack","bytes":0}'), { type: 'ack', bytes: 0 })
})

for (const text of [
  '',
  'ls',
  '[]',
  'null',
  '1',
  '"input"',
  '{}',
  '{"type":"data","data":"x"}',
  '{"type":"input"}',
  '{"type":"input","data":1}',
  '{"type":"resize","cols":80}',
  '{"type":"resize","cols":0,"rows":24}',
  '{"type":"resize","cols":80,"rows":1001}',
  '{"type":"resize","cols":80.5,"rows":24}',
  '{"type":"resize","cols":"80","rows":"24"}',
  '{"type":"ack","bytes":-1}',
  '{"type":"ack","bytes":1e300}',
  '{"type":"ack"}',
  '{"type":"__proto__"}'
]) {
  t.test(`refuses ${text === '' ? 'an empty message' : text}`, async t => {
    t.match(readMessage(text), { type: 'invalid', sentence: /^Invalid message: / })
  })
}
