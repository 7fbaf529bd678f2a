/* A thread for the tests of base/worker-thread and base/worker-pool. */
import { setTimeout as sleep } from 'node:timers/promises'
import { threadId } from 'node:worker_threads'
import { Refusal } from '../../lib/base/errors.js'
import { serveThread } from '../../lib/base/workers.js'

export type TestRequest =
  | { kind: 'thread' }
  | { kind: 'wait'; ms: number }
  | { kind: 'count'; to: number }
  | { kind: 'double'; bytes: Uint8Array<ArrayBuffer> }
  | { kind: 'refuse' }
  | { kind: 'fail' }
  | { kind: 'answer a function' }
  | { kind: 'fill memory' }
  | { kind: 'exit' }

export type TestAnswer = number | Uint8Array<ArrayBuffer>

async function answer(request: TestRequest, sendPart: (part: number) => void): Promise<TestAnswer> {
  switch (request.kind) {
    case 'thread':
      return threadId
    case 'wait':
      await sleep(request.ms)
      return threadId
    case 'count':
      for (let part = 1; part <= request.to; part++) sendPart(part)
      return request.to
    case 'double':
      return request.bytes.map(byte => 2 * byte)
    case 'refuse':
      throw new Refusal('conflict', 'in_the_way', 'Something is in the way', { field: 'path' })
    case 'fail':
      throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO', syscall: 'read' })
    case 'answer a function':
      return (() => {}) as unknown as number
    case 'fill memory': {
      const kept: unknown[] = []
      for (;;) kept.push({ length: kept.length })
    }
    case 'exit':
      process.exit(3)
  }
}

serveThread(answer, answered => (answered instanceof Uint8Array ? [answered.buffer] : []))
