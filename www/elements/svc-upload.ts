import { css } from '../dom/css.js'
import { SvcElement } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { errorLine } from './field.js'
import { icon } from './icon.js'
import { sizeWords } from './words.js'

/** The reader dropped or chose an archive. */
export class FileChosenEvent extends Event {
  readonly file: File

  constructor(file: File) {
    super('filechosen', { bubbles: true })
    this.file = file
  }
}

/** The reader gives up the upload. */
export class UploadCancelEvent extends Event {
  constructor() {
    super('uploadcancel', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    filechosen: FileChosenEvent
    uploadcancel: UploadCancelEvent
  }
}

export interface Progress {
  fileName: string
  sentBytes: number
  totalBytes: number
}

/**
 * A place to drop one zip, or to choose it. Property `progress`: of the file on its way, or null; property `problem`: a
 * sentence, or null. Events `filechosen`, `uploadcancel`.
 */
export class SvcUpload extends SvcElement {
  static override sheet = css`
    svc-upload {
      display: block;

      label, .sending {
        display: grid;
        align-content: center;
        justify-items: center;
        gap: 4px;
        min-height: 128px;
        padding: 20px;
        border: 1px dashed var(--edge);
        border-radius: var(--radius);
        text-align: center;
      }

      label { cursor: pointer; }
      label:hover { background: var(--hover); }
      label b { font-weight: 500; }
      label b span { color: var(--accent); }
      label .icon { width: 20px; height: 20px; margin-bottom: 4px; color: var(--muted); }
      label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
      &.over label { border-color: var(--accent); border-style: solid; background: var(--accent-quiet); }
      .sending { border-style: solid; border-color: var(--line); gap: 10px; }
      .sending p { max-width: 100%; }
      progress { width: min(320px, 100%); height: 6px; accent-color: var(--accent); }
      .error-line { margin-top: 8px; }
    }
  `

  #progress: Progress | null = null
  #problem: string | null = null
  #ownProblem: string | null = null

  set progress(progress: Progress | null) {
    this.#progress = progress
    this.update()
  }

  get progress(): Progress | null {
    return this.#progress
  }

  set problem(problem: string | null) {
    this.#problem = problem
    this.update()
  }

  get problem(): string | null {
    return this.#problem
  }

  protected override connected(): void {
    this.listen(this, 'dragover', event => {
      event.preventDefault()
      this.classList.add('over')
    })
    this.listen(this, 'dragleave', event => {
      const to = (event as DragEvent).relatedTarget
      if (!(to instanceof Node && this.contains(to))) this.classList.remove('over')
    })
    this.listen(this, 'drop', event => {
      event.preventDefault()
      this.classList.remove('over')
      if (this.#progress === null) this.#take((event as DragEvent).dataTransfer?.files)
    })
  }

  protected override view(): Template {
    return html`
      ${this.#progress === null ? this.#zone() : this.#sending(this.#progress)}
      ${errorLine(this.#ownProblem ?? this.#problem)}`
  }

  #zone(): Template {
    const choose = (event: Event): void => {
      const input = event.currentTarget as HTMLInputElement
      this.#take(input.files)
      // The same file may be chosen again, after it was mended.
      input.value = ''
    }
    return html`
      <label>
        <input type="file" class="unseen" accept=".zip,application/zip" @change="${choose}">
        ${icon('deployments')}
        <b>Drop a zip here, or <span>choose one</span></b>
        <span class="muted small">It is deployed at once: same-named files are replaced, nothing else is deleted.</span>
      </label>`
  }

  #sending({ fileName, sentBytes, totalBytes }: Progress): Template {
    const isSent = totalBytes > 0 && sentBytes >= totalBytes
    return html`
      <div class="sending">
        <p class="cut">${isSent ? 'Deploying' : 'Sending'} <b>${fileName}</b></p>
        <progress aria-label="Sent" max="${Math.max(1, totalBytes)}" .value="${sentBytes}"></progress>
        <p class="muted small number">${sizeWords(sentBytes)} of ${sizeWords(totalBytes)}</p>
        ${isSent
          ? null
          : html`<button type="button" @click="${() => this.dispatchEvent(new UploadCancelEvent())}">Give up</button>`}
      </div>`
  }

  #take(files: FileList | null | undefined): void {
    const [file, second] = files ?? []
    if (file === undefined) return
    this.#ownProblem = null
    if (second !== undefined) this.#ownProblem = 'One zip at a time: several files were dropped.'
    else if (!/\.zip$/i.test(file.name)) {
      this.#ownProblem = `"${file.name}" is not a zip: pack the files first, or use svc push.`
    }
    if (this.#ownProblem === null) this.dispatchEvent(new FileChosenEvent(file))
    this.update()
  }
}
