import { createServer, type Server } from 'node:http'
import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Check, defaultGate, type Gate } from '../../lib/model/policy.js'
import type { Project } from '../../lib/model/project.js'
import type { DeployStage } from './deploy-stage.js'
import { until } from './until.js'
import { listen } from './on-loopback.js'

/** A server that answers with the status in `status`. */
export async function statusServer(t: Test) {
  const state = { status: 200, requests: 0 }
  const server: Server = createServer((_, response) => {
    state.requests++
    response.writeHead(state.status).end('hello')
  })
  const port = await listen(t, server)
  return Object.assign(state, { url: `http://127.0.0.1:${port}/up` })
}

/** For a gate that should pass, also on a slow machine: it does not use the time. */
export const patient = { timeout: 30, deadline: 30 }

/** A gate that decides within a second. */
export const gateOf = (after: Check[], patch: Partial<Gate> = {}): Gate => ({
  ...defaultGate,
  interval: 0.1,
  timeout: 1,
  deadline: 1,
  successes: 1,
  ...patch,
  after
})

/** The contents of a file in the target of a project. */
export const contentsOf = (project: Project, path = 'a.txt'): Promise<string> =>
  readFile(join(project.deployPath, path), 'utf8')

/** The steps of a deployment with their results. */
export const stepsOf = (stage: DeployStage, id: string): string[] =>
  stage.row(id).steps.map(({ name, status }) => `${name} ${status}`)

/** What a settled or reverted deployment must not leave. */
export async function leftIn(stage: DeployStage, project: Project): Promise<string[]> {
  const journals = (await readdir(stage.home.deployments)).filter(name => name.endsWith('.undo'))
  const staging = (await readdir(project.deployPath)).filter(name => name.startsWith('.svc'))
  return [...journals, ...staging]
}

/** Pushes a deployment and waits until it waits to be confirmed. Returns its id. */
export async function pushWaiting(
  stage: DeployStage,
  project: Project,
  { files, confirmSeconds = 60 }: { files: Record<string, string>; confirmSeconds?: number }
): Promise<string> {
  const { deployId } = await stage.push(project, files, { confirmSeconds })
  await until(() => stage.row(deployId).heldFor === 'confirm' && stage.deployer.confirmUntil(deployId) !== null)
  return deployId
}
