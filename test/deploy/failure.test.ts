import t from 'tap'
import { Refusal } from '../../lib/base/refusal.js'
import { refuseFullDisk, sentenceOf, StepFailure, StopRequest } from '../../lib/deploy/failure.js'

const system = (code: string, path?: string): Error => Object.assign(new Error(`${code}: bad`), { code, path })

t.test('an error becomes one sentence that names the step and the cure', async t => {
  const cases: Array<[error: unknown, sentence: string]> = [
    [new StopRequest('cancel', 'Cancelled by admin'), 'Cancelled by admin'],
    [new StepFailure('The pre-deploy script ended with exit code 3'), 'The pre-deploy script ended with exit code 3'],
    [system('ENOSPC'), 'Extracting the archive failed: no space is left on the disk; free some and deploy again'],
    [
      system('EDQUOT', '/srv/a'),
      'Extracting the archive failed: the disk quota is used up at "/srv/a"; free some space, or raise it, and deploy again'
    ],
    [system('EACCES', '/srv'), 'Extracting the archive failed: svc may not write at "/srv" (EACCES)'],
    [system('EROFS'), 'Extracting the archive failed: the file system is read-only'],
    [new Error('odd'), 'Extracting the archive failed: odd']
  ]
  for (const [error, sentence] of cases) t.equal(sentenceOf(error, 'extract'), sentence)
  t.equal(sentenceOf(new Error('odd'), null), 'The deployment failed: odd')
})

t.test('a full disk is a refusal, everything else stays what it is', async t => {
  t.match(refuseFullDisk(system('ENOSPC')), { kind: 'unavailable', code: 'disk_full' })
  const other = new Refusal('conflict', 'x', 'y')
  t.equal(refuseFullDisk(other), other)
  t.equal(refuseFullDisk(null), null)
})
