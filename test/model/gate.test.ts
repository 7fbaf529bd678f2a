import t from 'tap'
import { confirmFault, defaultGate, gateFault, parsePlace, parseStatuses, titleOfCheck } from '../../lib/model/gate.js'

t.test('a gate has at most ten checks of known forms, and ends within ten minutes', async t => {
  const check = { http: 'http://127.0.0.1:3000/up', status: '200-299,304', header: { host: 'shop' } }
  t.equal(gateFault({ ...defaultGate, after: Array(10).fill(check) }), null)
  const wrong: Array<[object, string]> = [
    [{ after: Array(11).fill(check) }, 'after'],
    [{ after: [check], deadline: 601 }, 'deadline'],
    [{ after: [check], successes: 1.5 }, 'successes'],
    [{ after: [check], onFailure: 'stop' }, 'onFailure'],
    [{ after: [check], retries: 1 }, 'retries'],
    [{ after: [{ udp: '127.0.0.1:53' }] }, 'after.0'],
    [{ after: [check, { http: 'ftp://127.0.0.1/' }] }, 'after.1.http'],
    [{ after: [{ http: 'http://user:secret@127.0.0.1/' }] }, 'after.0.http'],
    [{ after: [{ ...check, status: '99' }] }, 'after.0.status'],
    [{ after: [{ tcp: 'no port' }] }, 'after.0.tcp'],
    [{ after: [{ command: ' ' }] }, 'after.0.command'],
    [{ after: [{ log: 'lsrc_a', none: '(', for: 5 }] }, 'after.0.none'],
    [{ after: [{ log: 'lsrc_a', none: 'panic' }] }, 'after.0.for']
  ]
  for (const [gate, field] of wrong) t.equal(gateFault({ ...defaultGate, ...gate })?.field, field, field)
})

t.test('the values of checks are parsed, and each check has a title', async t => {
  t.same(parsePlace('[::1]:5432'), { host: '[::1]', port: 5432 })
  t.equal(parsePlace('host:70000'), null)
  t.same(parseStatuses('200-299,304'), [
    { from: 200, to: 299 },
    { from: 304, to: 304 }
  ])
  t.equal(confirmFault({ seconds: 9 })?.field, 'seconds')
  t.equal(titleOfCheck({ command: 'node check.js\nexit' }), 'command "node check.js"')
})
