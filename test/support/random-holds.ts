/*
 * Random holds of deployments for programs of test/soak: checks that pass, flap, fail, hang, redirect or never end, a
 * post-deploy script that fails, and a confirmation that comes, does not come, or is a revert or a cancellation.
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { confirmLimits, type PolicyChanges } from '../../lib/model/policy.js'
import { gateOf } from './held.js'
import type { Random } from './random.js'
import { listen } from './on-loopback.js'

/** What the checked service answers. */
const answers = ['passes', 'passes', 'passes', 'flaps', 'fails', 'hangs', 'redirects', 'never ends'] as const
/** What somebody does about a deployment that is held. */
const decisions = ['confirm', 'confirm', 'confirm', 'revert', 'cancel', null] as const
const waitingMs = 20

/** How one deployment is held. */
export interface RandomHold {
  what: string
  policy: PolicyChanges
  /** Whether the post-deploy script fails. */
  scriptFails: boolean
  /** The route that is asked as soon as the deployment is held; null: none. */
  decision: (typeof decisions)[number]
}

/** A service that random checks ask. */
export interface CheckedService {
  /** Draws a hold, and sets what the service answers from now on. */
  next(random: Random): RandomHold
}

/** Starts a service that random checks ask. */
export async function checkedService(t: Test): Promise<CheckedService> {
  let answer: (typeof answers)[number] = 'passes'
  let count = 0
  const server: Server = createServer((_, response) => answerAs(answer, response, count++))
  const url = `http://127.0.0.1:${await listen(t, server)}/up`
  return {
    next(random) {
      answer = random.oneOf(answers)
      const after = [{ http: url, contains: 'ready' }]
      const onFailure = random.oneOf(['revert', 'revert', 'keep'] as const)
      const gate = random.below(2) === 0 ? null : gateOf(after, { timeout: 0.3, successes: 2, onFailure })
      const confirm = random.below(3) > 0 ? null : { seconds: confirmLimits.min }
      const scriptFails = random.below(6) === 0
      const onPostFailure = random.oneOf(['revert', 'keep'] as const)
      const decision = random.oneOf(decisions)
      const what = [
        gate === null ? 'no check' : `a check that ${answer} (${onFailure})`,
        scriptFails ? `a script that fails (${onPostFailure})` : 'a script',
        confirm === null ? 'no confirmation' : 'a confirmation',
        `somebody asks for ${decision ?? 'nothing'}`
      ].join(', ')
      return { what, policy: { gate, confirm, onPostFailure }, scriptFails, decision }
    }
  }
}

function answerAs(answer: (typeof answers)[number], response: ServerResponse, count: number): void {
  if (answer === 'hangs') return
  if (answer === 'redirects') return void response.writeHead(302, { location: '/elsewhere' }).end('ready')
  if (answer === 'never ends') return endlessly(response)
  const isGood = answer === 'passes' || (answer === 'flaps' && count % 3 > 0)
  response.writeHead(isGood ? 200 : 500).end('ready')
}

/** Sends data, without the word that the check looks for, until nobody reads it. */
function endlessly(response: ServerResponse): void {
  const chunk = 'x'.repeat(65_536)
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  }
  response.on('drain', more)
  more()
}

/** The deployment that a decision is about, as a server tells it. */
export interface Held {
  id: string
  status: string
  heldFor: string | null
}

/**
 * Asks for the decision of a hold until it was taken or the deployment has ended. `last` returns the newest deployment,
 * or null while there is none; `ask` returns the status of an answer. Ends as well when `isOver` says so.
 */
export async function decide(
  decision: RandomHold['decision'],
  { last, ask, isOver }: { last(): Promise<Held | null>; ask(path: string): Promise<number>; isOver(): boolean }
): Promise<void> {
  while (!isOver()) {
    const found = await last()
    if (found !== null && found.status !== 'queued' && found.status !== 'running') return
    const isDue = found !== null && (decision === 'confirm' ? found.heldFor === 'confirm' : found.heldFor !== null)
    if (isDue && decision !== null && (await ask(`/api/deployments/${found.id}/${decision}`)) === 200) return
    await sleep(waitingMs)
  }
}
