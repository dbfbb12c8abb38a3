# shellcheck shell=bash
# bin/nvrar site: the documentation as a site of static files. Sourced by bin/nvrar.

SITE_REQUIREMENTS="$NVRAR_HOME/docs/site/requirements.txt"

site_usage() {
  cat << 'END'
bin/nvrar site [DIRECTORY]: builds the documentation and the Javadoc as a site of static files, by default in target/nvrar/site, and checks
its links.

MkDocs is installed into ~/.cache/nvrar once. The directory's contents are replaced. To look at the site, open its index.html by a web
server, for example `python3 -m http.server -d target/nvrar/site`.
END
}

# Another one whenever the packages change.
site_environment() {
  printf '%s/site-%s\n' "$NVRAR_CACHE" "$(sha256sum < "$SITE_REQUIREMENTS" | head -c 8)"
}

# install_site DIRECTORY LOG
install_site() {
  local dir="$1" log="$2" python
  say "installing MkDocs into $dir (once; log: $log)"
  rm -rf "$dir"
  python="$(python_candidates | sed -n 1p)"
  "${OWN_PYTHON[@]}" "$python" -I -m venv "$dir" > "$log" 2>&1 &&
    "${OWN_PYTHON[@]}" "$dir/bin/python" -I -m pip install -q --disable-pip-version-check --retries 2 --no-deps --only-binary=:all: \
      -r "$SITE_REQUIREMENTS" >> "$log" 2>&1 < /dev/null && return 0
  rm -rf "$dir"
  tail -n 15 "$log" >&2
  die "MkDocs could not be installed; the last lines of $log are above"
}

# site [DIRECTORY]
site() {
  local environment javadoc="$NVRAR_HOME/ray-plugin/target/run/reports/apidocs"
  case "${1:-}" in
    -h | --help)
      site_usage
      return
      ;;
    -*)
      say "there is no option '$1'; bin/nvrar site takes a directory"
      exit 2
      ;;
  esac
  (($# < 2)) || { say 'bin/nvrar site takes one directory' && exit 2; }
  environment="$(site_environment)"
  once "$environment" install_site
  locked maven -pl ray-plugin javadoc:javadoc -Dnvrar.run -DskipTests -Djacoco.skip &&
    "${OWN_PYTHON[@]}" "$environment/bin/python" -I "$NVRAR_HOME/docs/site/build" "${1:-$NVRAR_STATE/site}" "$javadoc" &&
    say "the site is in ${1:-$NVRAR_STATE/site}; to look at it: python3 -m http.server -d '${1:-$NVRAR_STATE/site}', then http://localhost:8000"
}
