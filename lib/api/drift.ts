import { createHash } from 'node:crypto'
import { realpath, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { createBudget } from '../base/budget.js'
import { readAt } from '../base/files.js'
import { invalid, Refusal } from '../base/errors.js'
import type { Deployer } from '../deploy/deployer.js'
import { tooMuch } from '../http/core/memory.js'
import { attachment, fileReply } from '../http/static/file.js'
import { json } from '../http/core/route.js'
import type { Inspect } from '../install/browse.js'
import type { Secrets } from '../logs/read/secrets.js'
import type { Project } from '../model/project.js'
import type { OwnedEntry } from '../model/tree.js'
import type { Targets } from '../projects/targets.js'
import { queryPath, queryText, switchText } from './query.js'
import { param, type ApiRequest, type Handler } from './route.js'

/** Number of files that are hashed at a time: in all, and for one caller. */
const hashedFiles = { all: 4, each: { caller: 2 } }
const hashedBytes = 256 * 1024

/** Dependencies of the drift report. */
export interface DriftApiNeeds {
  deployer: Pick<Deployer, 'drift' | 'ownedTree'>
  projects: { get(id: string): Project }
  targets: Pick<Targets, 'open'>
  secrets: Secrets
}

/**
 * Handlers about the files that svc put into a target and that were edited or removed since. The token of a project
 * gets 403 `other_project` for every other project.
 */
export function driftHandlers({ deployer, projects, targets, secrets }: DriftApiNeeds) {
  const hashing = createBudget({ ...hashedFiles, refuse: tooMuch })

  /** Refuses every file but an edited one at its own path: a link on the way could lead to any file of the target. */
  function inspect({ deployPath }: Project, owned: OwnedEntry, { caller, signal }: ApiRequest): Inspect {
    const named = { asked: owned.path, field: 'path' }
    return async ({ handle, path }) => {
      secrets.checkPath(join(deployPath, owned.path), named)
      if (path !== join(await realpath(deployPath), owned.path)) throw notEdited(owned.path)
      await secrets.checkOpened(handle, path, named)
      // A file of another size is edited, and need not be read.
      if ((await handle.stat()).size !== owned.size) return
      if ((await hashing.during({ caller }, 1, () => digestOf(handle, signal))) === owned.sha256)
        throw notEdited(owned.path)
    }
  }

  return {
    /** `GET /api/projects/:id/drift?full=`: lists the edited and removed files. */
    async drift(request) {
      const projectId = param(request, 'id')
      const isFull = switchText(queryText(request.query, 'full'), 'full') ?? false
      return json(await deployer.drift({ projectId, isFull, signal: request.signal }))
    },

    /** `GET /api/projects/:id/drift/file?path=`: an edited file, as it is now. */
    async driftFile(request) {
      const projectId = param(request, 'id')
      const project = projects.get(projectId)
      const path = queryPath(request.query, 'path')
      if (path === undefined) throw invalid('path', '"path" is missing: expected a path relative to the deployPath')
      const owned = await findOwned(deployer, projectId, path)
      const name = path.slice(path.lastIndexOf('/') + 1)
      const headers = { 'content-disposition': attachment(name), 'content-type': 'application/octet-stream' }
      return fileReply({ file: () => targets.open(project, path, inspect(project, owned, request)), headers })
    }
  } satisfies Record<string, Handler>
}

async function findOwned(deployer: Pick<Deployer, 'ownedTree'>, projectId: string, path: string): Promise<OwnedEntry> {
  const owned = await deployer.ownedTree(projectId)
  if (owned.baseline === 'owned') for await (const entry of owned.entries()) if (entry.path === path) return entry
  throw notEdited(path)
}

async function digestOf(handle: FileHandle, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  for (let at = 0; ; ) {
    signal.throwIfAborted()
    const chunk = await readAt(handle, at, hashedBytes)
    if (chunk.length === 0) return hash.digest('hex')
    hash.update(chunk)
    at += chunk.length
  }
}

function notEdited(path: string): Refusal {
  const sentence = `Cannot send "${path}": it is not a file that svc put there and that was edited since`
  return new Refusal('not_found', 'not_found', sentence)
}
