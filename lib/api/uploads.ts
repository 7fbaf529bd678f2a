import { integer, line, nullable, optional, readFields, sha256Text } from '../base/fields.js'
import { invalid } from '../base/errors.js'
import { archiveTooLarge } from '../core/archive/names.js'
import { WrongOffset } from '../deploy/pieces.js'
import { refusalReply } from '../http/core/reply.js'
import { json, type Reply } from '../http/core/route.js'
import type { OpenUpload } from '../model/access.js'
import { type ApiRequest, bodyAsSent, type Handler, param } from './route.js'
import { ownerOf } from '../access/bearer.js'
import { checkNotLate, checkUploadProject } from './upload.js'
import type { ApiServices } from './services.js'

const bytesPerMegabyte = 1024 * 1024
/** What one piece holds while it arrives: a block from the socket, and one on its way to the disk. */
const pieceBlockBytes = 256 * 1024
/** Where a piece begins, and in an answer where the next one does. */
const offsetHeader = 'Upload-Offset'

/** Fields of `POST /api/uploads`. */
export const uploadFields = {
  /** The project to deploy to. */
  projectId: line({ min: 1, max: 100 }),
  /** The size of the file, which is the part `file` of `POST /api/deploy/upload`. */
  bytes: integer(0, Number.MAX_SAFE_INTEGER),
  /** The SHA-256 of the file in hexadecimal. With it, another client with the same token can continue the upload. */
  sha256: optional(nullable(sha256Text))
}

/** Handlers of uploads in pieces (deploy/pieces.ts). Their files are deployed by `POST /api/deploy/upload`. */
export function pieceHandlers({ pieces, deployer, findProject, settings }: ApiServices) {
  return {
    async begin(request) {
      checkNotLate(request.actor)
      const { projectId, bytes, sha256 = null } = readFields(await request.json(), uploadFields)
      checkUploadProject(projectId, request.actor, findProject)
      const limitBytes = settings.number('max_upload_size') * bytesPerMegabyte
      if (bytes > limitBytes) throw archiveTooLarge(limitBytes)
      deployer.checkArrival(projectId)
      return replyOf(await pieces.begin({ projectId, bytes, sha256 }, ownerOf(request.actor)))
    },

    find: async request => replyOf(await pieces.find(param(request, 'id'), ownerOf(request.actor))),

    async append(request) {
      const id = param(request, 'id')
      const offset = readOffset(request)
      const { headers, client, actor } = request
      const body = bodyAsSent(request)
      const length = headers['content-length']
      request.hold(pieceBlockBytes)
      // What a hub passes on is known to be whole only at its end.
      const keepsPart = client.hub?.seal === undefined
      const piece = { offset, body, bytes: length === undefined ? null : Number(length), keepsPart }
      try {
        return replyOf(await pieces.append(id, piece, ownerOf(actor)))
      } catch (error) {
        if (!(error instanceof WrongOffset)) throw error
        return refusalReply(error, { [offsetHeader]: String(error.offset) })
      }
    },

    async remove(request) {
      await pieces.remove(param(request, 'id'), ownerOf(request.actor))
      return json({ success: true })
    }
  } satisfies Record<string, Handler>
}

function replyOf(upload: OpenUpload): Reply {
  return json(upload, 200, { [offsetHeader]: String(upload.offset) })
}

function readOffset({ headers }: ApiRequest): number {
  const given = headers[offsetHeader.toLowerCase()]
  if (typeof given === 'string' && /^\d{1,15}$/.test(given)) return Number(given)
  const sentence = `"${offsetHeader}" is ${given === undefined ? 'missing' : `"${String(given)}"`}: expected the byte at which the piece begins`
  throw invalid(offsetHeader, sentence)
}
