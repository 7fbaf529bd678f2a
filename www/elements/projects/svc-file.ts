import { notice } from '../events.js'
import type { FileContent, FileEntry } from '../../../lib/model/manifest.js'
import type { ProjectCalls } from '../../server/project-calls.js'
import { download } from '../../dom/address.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { createResource, loaded, type Resource } from '../../state/resource.js'
import { t } from '../../words/t.js'
import { allLines } from '../base/svc-code.js'
import { formatBytes } from '../../shared/size.js'
import { errorWords } from '../../words/errors.js'

const imageTypes = /\.(?:png|jpe?g|gif|webp|avif|svg|ico|bmp)$/i
/** A larger image is not shown, only downloaded. */
const maxImageBytes = 20 * 1024 * 1024

const mayWrap = (text: string): boolean => text.split('\n', allLines + 2).length <= allLines

/** The visible content of a file: an image, text, or the reason why neither can be shown. */
interface Shown {
  /** An object URL of the image. */
  image: string | null
  content: FileContent | null
}

/**
 * One file of a target: its text or image, and a download. Properties: `entry`, `projectId`, `calls`. Event: `notice`.
 */
export class SvcFile extends SvcElement {
  static override sheet = css`
    svc-file {
      display: block;

      .card { overflow: clip; }
      .bar { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 12px; padding: 6px 8px 6px 16px; border-bottom: 1px solid var(--line); }
      .bar p { flex: 1 1 160px; color: var(--muted); font-size: var(--size-13); }
      .picture { display: grid; place-content: center; padding: 24px; background: repeating-conic-gradient(var(--hover) 0 25%, var(--raised) 0 50%) 0 0 / 20px 20px; }
      img { max-width: 100%; max-height: 60dvh; }
      .picture + svc-code { border-top: 1px solid var(--line); }
    }
  `

  calls!: ProjectCalls
  projectId = ''
  entry!: FileEntry
  #shown!: Resource<Shown>
  #isWrapped = false

  protected override changed(name: string, before: unknown): void {
    if (name !== 'entry') return
    const { path, mtime } = before as FileEntry
    if (path !== this.entry.path || mtime !== this.entry.mtime) this.#look()
  }

  protected override connected(): void {
    this.#look()
    this.signal.addEventListener('abort', () => this.#release())
  }

  protected override view(): Template {
    const { size, mtime, name } = this.entry
    const content = this.#shown.value?.content ?? null
    return html`
      <div class="card">
        <div class="bar">
          <p class="number">${formatBytes(size)} · <svc-time at="${mtime}"></svc-time></p>
          ${
            content?.type === 'text' && mayWrap(content.content)
              ? html`
              <button type="button" class="quiet" aria-pressed="${this.#isWrapped ? 'true' : 'false'}"
                @click="${() => this.#wrap()}">
                ${icon('wrap')}${t('Wrap')}
              </button>`
              : null
          }
          ${
            content?.type === 'text'
              ? html`
              <svc-copy .text="${content.content}"></svc-copy>`
              : null
          }
          <button type="button" @click="${() => void this.#download()}">${icon('download')}${t('Download')}</button>
        </div>
        ${loaded(this.#shown, 'the file', shown => this.#inside(shown, name))}
      </div>`
  }

  #inside({ image, content }: Shown, name: string): Template {
    const picture = image === null ? null : html`<div class="picture"><img src="${image}" alt="${name}"></div>`
    if (content?.type === 'text') {
      return html`
        ${picture}
        ${
          content.content === ''
            ? html`<div class="state"><p class="muted">${t('The file is empty.')}</p></div>`
            : [
                keyed(
                  this.entry.path,
                  html`
            <svc-code wrap="${this.#isWrapped}" .language="${content.language}" .text="${content.content}"></svc-code>`
                )
              ]
        }`
    }
    if (picture !== null) return picture
    const reason = t(content === null ? 'The picture is too large to be shown here' : content.message)
    return html`<div class="state"><p class="muted">${t('{reason}. You can download it.', { reason })}</p></div>`
  }

  #look(): void {
    this.#release()
    const entry = this.entry
    this.#shown = createResource<Shown>({
      load: signal => this.#load(entry, signal),
      onChange: () => {
        if (entry === this.entry || entry.path === this.entry.path) this.update()
      },
      signal: this.signal
    })
    void this.#shown.load()
    this.update()
  }

  async #load({ path, size }: FileEntry, signal: AbortSignal): Promise<Shown> {
    const isImage = imageTypes.test(path)
    if (isImage && size > maxImageBytes) return { image: null, content: null }
    const isDrawing = /\.svg$/i.test(path)
    const [bytes, content] = await Promise.all([
      isImage && size > 0 ? this.calls.bytes(this.projectId, path, signal) : null,
      isImage && !isDrawing ? null : this.calls.file(this.projectId, path, signal)
    ])
    signal.throwIfAborted()
    return { image: bytes === null ? null : URL.createObjectURL(bytes), content }
  }

  /** Releases the object URL of the previous image. */
  #release(): void {
    const image = this.#shown?.value?.image ?? null
    if (image !== null) URL.revokeObjectURL(image)
  }

  #wrap(): void {
    this.#isWrapped = !this.#isWrapped
    this.update()
  }

  async #download(): Promise<void> {
    try {
      download(this.calls.downloadAddress(this.projectId, this.entry.path), this.entry.name)
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
    }
  }
}
