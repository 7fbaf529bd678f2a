import { placeOf, type Client } from '../../server/client.js'
import { notice, said, type Said, css, SvcElement } from '../element.js'
import type { FileContent, FileEntry } from '../../../lib/model/manifest.js'
import { download } from '../../dom/address.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { createResource, loaded, type Resource } from '../../state/resource.js'
import { countWords, t, errorWords } from '../../words/t.js'
import { allLines, SvcCode } from '../base/svc-code.js'
import { formatBytes } from '../../shared/api.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import { fileAddress } from '../../pages/page.js'
import { stepsOf, SvcRows, createTree, type DirectoryTree, SvcTree } from '../base/svc-rows.js'

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

const downloadOf = (id: string, path: string): string =>
  placeOf('GET /api/projects/:id/download', { id, query: { path } })

/**
 * One file of a target: its text or image, and a download. Properties: `entry`, `projectId`, `client`. Event: `notice`.
 */
export class SvcFile extends SvcElement {
  static override sheet = css`
    svc-file {
      display: block;

      .card { overflow: clip; }
      .bar { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 12px; padding: 6px 8px 6px 16px; border-bottom: 1px solid var(--line); }
      .bar p { flex: 1 1 160px; color: var(--muted); font-size: var(--size-13); }
      .picture { display: grid; place-items: center; padding: 24px; background: repeating-conic-gradient(var(--hover) 0 25%, var(--raised) 0 50%) 0 0 / 20px 20px; }
      img { max-width: 100%; max-height: 60dvh; }
      .picture + svc-code { border-top: 1px solid var(--line); }
    }
  `

  client!: Client
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
      isImage && size > 0
        ? this.client.send('GET', downloadOf(this.projectId, path), { signal }).then(answer => answer.blob())
        : null,
      isImage && !isDrawing
        ? null
        : this.client.call('GET /api/projects/:id/file', { id: this.projectId, query: { path }, signal })
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
      download(this.client.address(downloadOf(this.projectId, this.entry.path)), this.entry.name)
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
    }
  }
}

/** What a path refers to. */
type Seen = { kind: 'directory'; entries: FileEntry[] } | { kind: 'file'; entry: FileEntry }

/** Maximum number of listed entries (§4.4 as decided); there can be more. */
const maxListed = 10_000

/**
 * The contents of a project's target: a tree of its directories, and the directory or file that `path` names.
 * Properties: `project`, `client`; `path`, relative, empty for the target itself. Events: `filego`, `notice`.
 */
export class SvcFiles extends SvcElement {
  static override sheet = css`
    svc-files {
      display: grid;
      grid-template-columns: 240px minmax(0, 1fr);
      gap: 24px;
      align-items: start;

      > aside { position: sticky; top: calc(var(--top-kept) + 16px); max-height: calc(100dvh - var(--top-kept) - 32px); overflow-y: auto; }
      > div { display: grid; grid-template-columns: minmax(0, 1fr); gap: 12px; }
      .way { display: flex; flex-wrap: wrap; align-items: center; gap: 4px; min-height: 32px; font-family: var(--mono); font-size: var(--size-13); }
      .way li { display: flex; align-items: center; gap: 4px; max-width: 100%; min-width: 0; }
      .way .icon { width: 12px; height: 12px; color: var(--muted); }
      .way [aria-current] { font-weight: 600; overflow-wrap: anywhere; }
      svc-rows { --row-px: 37px; }
      .row {
        position: relative;
        display: grid;
        grid-template-columns: 16px minmax(0, 1fr) 90px 140px;
        align-items: center;
        gap: 12px;
        height: 100%;
        padding: 0 16px;
      }
      li + li .row { border-top: 1px solid var(--line); }
      .row .icon, .row .number, .row svc-time { color: var(--muted); }
      .row .number, .row svc-time { font-size: var(--size-13); text-align: right; }
      .note { padding: 10px 16px; border-top: 1px solid var(--line); color: var(--muted); font-size: var(--size-13); }
      @media (max-width: 959px) {
        grid-template-columns: minmax(0, 1fr);
        > aside { display: none; }
      }
      @media (max-width: 719px) {
        svc-rows { --row-px: 49px; }
        .row { grid-template-columns: 16px minmax(0, 1fr) auto; gap: 10px; }
        .row svc-time { display: none; }
      }
    }
  `

  project!: Project
  client!: Client
  path = ''
  #tree!: DirectoryTree
  #asked = new Set<string>()
  #seen!: Resource<Seen>

  protected override changed(name: string): void {
    if (name === 'path') this.#look()
  }

  protected override connected(): void {
    this.#tree = createTree(this.project.name)
    this.#asked.clear()
    this.#look()
  }

  protected override view(): Template {
    return html`
      <aside>
        <svc-tree label="${t('Directories')}" .rows="${this.#tree.rows}" .selected="${this.#directory}"
          @treetoggle="${(event: Event) => this.#toggle(event as Said<'treetoggle'>)}"
          @treego="${(event: Event) => this.#go((event as Said<'treego'>).path)}"></svc-tree>
      </aside>
      <div>
        ${this.#way()}
        ${loaded(this.#seen, 'the files', seen =>
          seen.kind === 'file' ? this.#file(seen.entry) : this.#list(seen.entries)
        )}
      </div>`
  }

  /** The current directory, even while one of its files is open. */
  get #directory(): string {
    return this.#seen.value?.kind === 'file' ? parentOf(this.path) : this.path
  }

  #way(): Template {
    const below = stepsOf(`/${this.path}`, '/')
      .slice(1)
      .map(({ name, path }) => ({ name, path: path.slice(1) }))
    const steps = [{ name: this.project.name, path: '' }, ...below]
    return html`
      <nav aria-label="${t('Path')}">
        <ol class="way" translate="no">
          ${steps.map(
            ({ name, path }, index) => html`
            <li>
              ${index === 0 ? null : icon('next')}
              ${
                index === steps.length - 1
                  ? html`<span aria-current="location">${name}</span>`
                  : html`<a class="cut" href="${fileAddress(this.project.id, path)}">${name}</a>`
              }
            </li>`
          )}
        </ol>
      </nav>`
  }

  #list(entries: readonly FileEntry[]): Template {
    if (entries.length === 0) {
      return html`
        <div class="card state">
          <p class="muted">
            ${
              this.path === ''
                ? t('No files yet. The first deployment writes them here.')
                : t('This directory is empty.')
            }
          </p>
        </div>`
    }
    const files = entries.filter(({ isDir }) => !isDir)
    const bytes = files.reduce((sum, { size }) => sum + size, 0)
    const facts = [
      files.length < entries.length ? countWords(entries.length - files.length, 'folder') : '',
      files.length > 0 ? `${countWords(files.length, 'file')}, ${formatBytes(bytes)}` : ''
    ]
      .filter(Boolean)
      .join(' · ')
    return html`
      <div class="card">
        <svc-rows label="${t('Files')}" .key="${pathOf}" .items="${entries}" .row="${this.#row}"></svc-rows>
        <p class="note number">
          ${facts} ${entries.length < maxListed ? null : t('The list may be incomplete.')}
        </p>
      </div>`
  }

  #row = (entry: FileEntry, { isCurrent }: { isCurrent: boolean }): Template => html`
    <div class="row">
      ${icon(entry.isDir ? 'folder' : 'file')}
      <a class="cut" href="${fileAddress(this.project.id, entry.path)}" tabindex="${isCurrent ? null : '-1'}"
        title="${entry.name}">
        <span translate="no">${entry.name}</span>${entry.isDir ? html`<span class="unseen">${t('folder')}</span>` : null}
      </a>
      <span class="number">${entry.isDir ? null : formatBytes(entry.size)}</span>
      <svc-time at="${entry.mtime}"></svc-time>
    </div>`

  #file(entry: FileEntry): Template {
    return html`<svc-file .entry="${entry}" .projectId="${this.project.id}" .client="${this.client}"></svc-file>`
  }

  #go(path: string): void {
    this.dispatchEvent(said('filego', { path }))
  }

  #toggle({ path, isOpen }: Said<'treetoggle'>): void {
    this.#tree.setOpen(path, isOpen)
    this.#fill()
    this.update()
  }

  #look(): void {
    const path = this.path
    this.#seen = createResource<Seen>({
      load: signal => this.#see(path, signal),
      onChange: () => {
        if (path === this.path) this.update()
      },
      signal: this.signal
    })
    void this.#seen.load()
    this.#tree.reveal(path)
    // Its own listing fills the tree, too.
    for (const each of [path, parentOf(path)]) this.#asked.add(each)
    this.#fill()
    this.update()
  }

  /** Finds out what a path is from the listing of its parent. Requesting it as the wrong type would be an error. */
  async #see(path: string, signal: AbortSignal): Promise<Seen> {
    try {
      if (path !== '') {
        const above = await this.#entries(parentOf(path), signal)
        const entry = above.find(each => each.path === path)
        if (entry !== undefined && !entry.isDir) return { kind: 'file', entry }
      }
      const entries = await this.#entries(path, signal)
      this.#tree.setOpen(path, true)
      return { kind: 'directory', entries }
    } catch (error) {
      for (const each of [path, parentOf(path)]) this.#asked.delete(each)
      throw error
    }
  }

  async #entries(path: string, signal: AbortSignal): Promise<FileEntry[]> {
    const entries = await this.client.call('GET /api/projects/:id/files', {
      id: this.project.id,
      query: { path },
      signal
    })
    this.#tree.fill(
      path,
      entries.filter(({ isDir }) => isDir).map(({ name }) => name)
    )
    return entries
  }

  /** Loads the directories that the tree shows. A failure is reported when the directory is opened. */
  #fill(): void {
    for (const path of this.#tree.wanted) {
      if (this.#asked.has(path)) continue
      this.#asked.add(path)
      this.#entries(path, this.signal).then(
        () => this.update(),
        () => this.#asked.delete(path)
      )
    }
  }
}

const pathOf = ({ path }: FileEntry): string => path
const parentOf = (path: string): string => path.split('/').slice(0, -1).join('/')

/** The elements that a page registers for the files of a project. */
export const elements = {
  'svc-files': SvcFiles,
  'svc-file': SvcFile,
  'svc-code': SvcCode,
  'svc-rows': SvcRows,
  'svc-tree': SvcTree
}
